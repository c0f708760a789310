/* join.h - one run of pgjoin. Begin with join.c: it finds the index and joins what pgsplit wrote.
 * join_model.c writes what others wrote: shards of Hugging Face, checkpoints of several ranks. */
#ifndef PG_WRAP_JOIN_JOIN_H
#define PG_WRAP_JOIN_JOIN_H

#include "pg/shard.h"
#include "wrap/rewrite/rewrite.h"

typedef struct pg__join {
    const char *in, *out;
    const pg_join_opts *o;
    char *index; /* path of the manifest or index */
    pg__io *io;
    pg_shard_report rep;
} pg__join;

pg__sink_opts pg__join_sink(const pg__join *j);

/* ---- join_model.c ---- */

/* 1 if `out` is to be a folder of shards. */
int pg__join_to_folder(const pg__join *j);

/* Writes the plan, of which --only may leave some, in format f. */
pg_status pg__join_plan(pg__join *j, pg__plan *plan, const pg__format *f, pg_err *err);

/* Writes the model in a checkpoint of several processes, without what a wrapper left in names. */
pg_status pg__join_ranks(pg__join *j, pg_err *err);

#endif
