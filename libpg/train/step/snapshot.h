/* snapshot.h - a trainer's state between two steps, in host memory: it is saved while the next
 * steps run. */
#ifndef PG_TRAIN_STEP_SNAPSHOT_H
#define PG_TRAIN_STEP_SNAPSHOT_H

#include "train/step/trainer.h"

typedef struct pg__snapshot {
    _Atomic unsigned n_users;
    pg_trainer *t; /* used only for what never changes in a run: graph, names, shapes */
    pg__optimizer optimizer;
    uint64_t n_moves;
    size_t n_bytes;                     /* of each flat: laid out as on the device */
    int has_slot[PG_MAX_SLOTS];         /* 0: there is no such slot, or slots were not wanted */
    void *params, *slots[PG_MAX_SLOTS]; /* slots: also NULL if they are sharded over ranks
                                           (optimizer_shard.h): then they are read at once, while
                                           the ranks wait to serve them */
} pg__snapshot;

/* with_slots: the optimizer's state too. */
pg_status pg__snapshot_take(pg__snapshot **out, pg_trainer *t, int with_slots, pg_err *err);
pg__snapshot *pg__snapshot_share(pg__snapshot *s); /* one more user */
void pg__snapshot_drop(pg__snapshot *s);           /* the last one frees it; NULL is allowed */

/* n bytes of a slot from byte `at` of the whole slot on, as the device has them; slot PG_NONE: the
 * parameters. */
pg_status pg__snapshot_read(const pg__snapshot *s, size_t slot, uint64_t at, void *buf, size_t n,
                            pg_err *err);
/* Where a parameter's values begin there. */
uint64_t pg__snapshot_place(const pg__snapshot *s, size_t param);

/* Bytes that a snapshot takes. The memory of the last dropped one is kept for the next. */
uint64_t pg__snapshot_bytes(const pg_trainer *t, int with_slots);
void pg__snapshot_forget(pg_trainer *t); /* frees that memory */

/* Copies it back: parameters, and slots if the snapshot has them, but no counters. */
pg_status pg__snapshot_restore(const pg__snapshot *s, pg_trainer *t, pg_err *err);

#endif
