/* zero_impl.h - shared by the files that read a checkpoint of ZeRO (zero.h). */
#ifndef PG_FORMAT_ZERO_IMPL_H
#define PG_FORMAT_ZERO_IMPL_H

#include "format/pytorch_file.h"
#include "format/pytorch_impl.h"
#include "format/shards.h"
#include "format/zero.h"

#define PG_ZERO_OPTIMIZER   "optimizer_state_dict"
#define PG_ZERO_MAX_RANKS   65536u
#define PG_ZERO_MOST_FAULTS 1000u /* then further files are not looked for */

/* What is open while the files are read. */
typedef struct pg__zero_reading {
    pg__zero_job *job;
    pg__zero *z; /* the slice that is being read */
    const char *path;
    int folder;     /* which holds the files; files that rest are opened from it */
    size_t n_files; /* that were asked for */
    size_t n_names; /* bytes of names */
    pg__shard_faults faults;
    pg_err *err;
} pg__zero_reading;

/* ---- zero_files.c ---- */

static inline const pg__pk_value *pg__zero_item(const pg__pickle *p, const pg__pk_value *v,
                                                uint32_t i)
{
    return &p->v[v->u.items[i]];
}

static inline int pg__zero_is_list(const pg__pk_value *v)
{
    return v && (v->kind == PG_PK_LIST || v->kind == PG_PK_TUPLE);
}

/* The value of a key, or NULL if v is no dictionary or lacks it. */
const pg__pk_value *pg__zero_get(const pg__pickle *p, const pg__pk_value *v, const char *key);
/* The same in the root of the pickle. */
const pg__pk_value *pg__zero_root(const pg__pickle *p, const char *key);
/* A text as a fresh string, or NULL. */
char *pg__zero_text(const pg__pk_value *v);
/* The same for texts that a file has many of: a few bytes of a pickle repeat a long one, so all
 * together are limited. what: for the message if it is no text. */
pg_status pg__zero_name(char **out, pg__zero_reading *r, const pg__pk_value *v, const char *what);

/* 1 if v is a tensor, or a dictionary or list with one. */
int pg__zero_holds(const pg__pickle *p, const pg__pk_value *v);

/* Opens and reads the file `name` of the folder. A file that is missing or damaged is added to the
 * faults, and PG_E_UNKNOWN returned. */
pg_status pg__zero_open(pg__zero_reading *r, pg__pt_source *f, const char *name);
void pg__zero_close(pg__pt_source *f);

/* The tensors below a path in an open file, which is used up. */
pg_status pg__zero_part(pg_store **out, pg__zero_reading *r, pg__pt_source *f, const char *name,
                        const char *part);
/* The same of a file that is not open; PG_E_UNKNOWN as above. */
pg_status pg__zero_part_of(pg_store **out, pg__zero_reading *r, const char *name, const char *part);

pg_status pg__zero_optim_name(pg__str *out, const pg__zero_reading *r, uint64_t rank);
pg_status pg__zero_model_name(pg__str *out, const pg__zero_reading *r, uint64_t rank);

/* ---- zero_ranks.c ---- */

/* Stage and number of ranks, as the first rank says it. */
pg_status pg__zero_read_job(pg__zero_reading *r, const pg__pickle *p);
/* The optim_states of all ranks of the slice. */
pg_status pg__zero_read_ranks(pg__zero_reading *r);

/* ---- zero_step.c ---- */

/* Reads at which step model_states was saved; of the first rank of a slice. */
void pg__zero_read_step(pg__zero *z, const pg__pickle *p);
/* The other model_states that are there must be of the same step. */
pg_status pg__zero_check_models(pg__zero_reading *r);

/* ---- zero_model.c ---- */

/* The first model_states of the slice, then the frozen parameters of all. */
pg_status pg__zero_read_model(pg__zero_reading *r);
pg_status pg__zero_read_rules(pg__zero_reading *r, const pg__pickle *p);

#endif
