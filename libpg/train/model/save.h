/* save.h - a trainer's model as a file: the current state or, from any thread, a snapshot. */
#ifndef PG_TRAIN_MODEL_SAVE_H
#define PG_TRAIN_MODEL_SAVE_H

#include "train/step/step.h"

typedef struct pg__save_order {
    const char *path;         /* its suffix gives the format, as for pg_trainer_save() */
    const pg__snapshot *from; /* NULL: from the trainer's device, in the training thread */
    int force;                /* replace an existing file */
    int full;                 /* .h5: description, training configuration and optimizer state too */
    int dry_run;              /* check only whether it could be written */
    int prove;                /* for a snapshot: pg__prove() before the file gets its name */
    int unread;               /* do not even read the file back */
    uint64_t max_shard_bytes; /* a larger model becomes `path`.shards; 0: no limit */
} pg__save_order;

/* The result. */
typedef struct pg__saved {
    char *path; /* the file, or the folder of shards */
    pg__strs notes;
} pg__saved;
void pg__saved_fini(pg__saved *s);

pg_status pg__save(pg__saved *out, pg_trainer *t, const pg__save_order *o, pg_err *err);

/* Opens a checkpoint as the trainer does, and compares every value that it would take with the
 * snapshot's, bit by bit; full: the optimizer's state too. PG_E_MISMATCH says what differs. */
pg_status pg__prove(pg_trainer *t, const pg__snapshot *s, const char *path, int full, pg_err *err);

#endif
