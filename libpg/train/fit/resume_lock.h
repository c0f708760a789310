/* resume_lock.h - lets only one run at a time keep its state in a file. */
#ifndef PG_TRAIN_FIT_RESUME_LOCK_H
#define PG_TRAIN_FIT_RESUME_LOCK_H

#include "base/str.h"

/* Starts as {0}. */
typedef struct pg__resume_lock {
    int is_held, fd;
    pg__str path;
} pg__resume_lock;

/* Locks resume_file until release or the end of the process; with makes_folder, creates a missing
 * folder. RESUME_FILE.lock beside the file names the owner. PG_E_IO: another run has it, on this
 * machine or, if the file system shares locks, on another. If locking or writing is impossible,
 * takes no lock: saving will report that. */
pg_status pg__resume_lock_take(pg__resume_lock *l, const char *resume_file, int makes_folder,
                               pg_err *err);
void pg__resume_lock_release(pg__resume_lock *l);

#endif
