/* resume_lock.h - one run at a time keeps its state in a file. */
#ifndef PG_TRAIN_FIT_RESUME_LOCK_H
#define PG_TRAIN_FIT_RESUME_LOCK_H

#include "base/str.h"

/* Starts as {0}. */
typedef struct pg__resume_lock {
    int is_held, fd;
    pg__str path;
} pg__resume_lock;

/* Of resume_file, whose folder is made where `makes_folder` and it is missing; it holds until it is
 * released or the process is gone. Beside the file lies RESUME_FILE.lock meanwhile, which says
 * whose it is. PG_E_IO: another run has it, on this machine or where the file system tells of
 * others. Where nothing can be locked or written nothing is held: saving will tell. */
pg_status pg__resume_lock_take(pg__resume_lock *l, const char *resume_file, int makes_folder,
                               pg_err *err);
void pg__resume_lock_release(pg__resume_lock *l);

#endif
