/* snapshot.h - a trainer as it stood between two steps, in host memory: what is saved while the
 * next steps are made already. */
#ifndef PG_TRAIN_STEP_SNAPSHOT_H
#define PG_TRAIN_STEP_SNAPSHOT_H

#include "train/step/trainer.h"

typedef struct pg__snapshot {
    _Atomic unsigned n_users;
    pg_trainer *t; /* only what never changes in a run is looked at: graph, names, shapes */
    pg__optimiser optimiser;
    uint64_t n_moves;
    size_t n_bytes;                     /* of each flat: laid out as on the device */
    int has_slot[PG_MAX_SLOTS];         /* not where there is none, or none was wanted */
    void *params,
        *slots[PG_MAX_SLOTS]; /* slots: NULL too where ranks keep them (optimizer_shard.h): then
                                 they are read while these wait for that, at once */
} pg__snapshot;

/* with_slots: the optimizer's state too. */
pg_status pg__snapshot_take(pg__snapshot **out, pg_trainer *t, int with_slots, pg_err *err);
pg__snapshot *pg__snapshot_share(pg__snapshot *s); /* one more user */
void pg__snapshot_drop(pg__snapshot *s);           /* the last one frees it; NULL is allowed */

/* n bytes of a slot from byte `at` of all on, as the device has them; slot PG_NONE: of the
 * parameters. */
pg_status pg__snapshot_read(const pg__snapshot *s, size_t slot, uint64_t at, void *buf, size_t n,
                            pg_err *err);
/* Where a parameter's values begin there. */
uint64_t pg__snapshot_place(const pg__snapshot *s, size_t param);

/* Bytes that one takes. The memory of the last one dropped is kept for the next. */
uint64_t pg__snapshot_bytes(const pg_trainer *t, int with_slots);
void pg__snapshot_forget(pg_trainer *t); /* frees that memory */

/* The other way: parameters, and slots where the snapshot has them, but no counters. */
pg_status pg__snapshot_restore(const pg__snapshot *s, pg_trainer *t, pg_err *err);

#endif
