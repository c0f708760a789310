/* zero_files.c - the files of a ZeRO checkpoint: their names, and how one is opened. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/ranks.h"
#include "format/zero_impl.h"
#include "io/folder.h"

#define MOST_NAMES ((size_t)64 << 20)

const pg__pk_value *pg__zero_get(const pg__pickle *p, const pg__pk_value *v, const char *key)
{
    return v && pg__pickle_is_dict(p, v) ? pg__pickle_get(p, v, key) : NULL;
}

const pg__pk_value *pg__zero_root(const pg__pickle *p, const char *key)
{
    return pg__zero_get(p, &p->v[p->root], key);
}

static int is_text(const pg__pk_value *v)
{
    return v && v->kind == PG_PK_STR && !memchr(v->u.text, 0, v->n);
}

char *pg__zero_text(const pg__pk_value *v)
{
    return is_text(v) ? pg__mem_strndup(v->u.text, v->n) : NULL;
}

pg_status pg__zero_name(char **out, pg__zero_reading *r, const pg__pk_value *v, const char *what)
{
    if (!is_text(v))
        return pg_fail(r->err, PG_E_FORMAT, "%s is not a text", what);
    *out = pg__zero_text(v);
    if (!*out)
        return pg__nomem(r->err);
    r->n_names += v->n + sizeof(pg__zero_param);
    return r->n_names > MOST_NAMES
               ? pg_fail(r->err, PG_E_LIMIT, "names of more than %s bytes", PG_NUM(MOST_NAMES))
               : PG_OK;
}

int pg__zero_holds(const pg__pickle *p, const pg__pk_value *v)
{
    if (pg__pt_is_tensor(p, v))
        return 1;
    for (pg__pt_entries e = pg__pt_entries_of(p, v); pg__pt_next(&e);)
        if (pg__pt_is_tensor(p, e.value))
            return 1;
    return 0;
}

pg_status pg__zero_open(pg__zero_reading *r, pg__pt_source *f, const char *name)
{
    pg_err e = {0};
    r->n_files++;
    pg_status st = pg__io_open_below(&f->io, r->folder, name, &e);
    const int gone = st == PG_E_IO && e.sys == ENOENT;
    if (st == PG_OK && r->n_files > PG_RANK_FILES_OPEN)
        pg__io_rest(f->io, r->folder);
    if (st == PG_OK)
        st = pg__pt_read_zip(f, &e);
    if (st == PG_OK || st == PG_E_NOMEM) {
        if (st != PG_OK && r->err)
            *r->err = e;
        return st;
    }
    st = gone ? pg__strs_printf(&r->faults.missing, r->err, "%s", PG_SHOW(name))
              : pg__strs_printf(&r->faults.damaged, r->err, "%s (%s)", PG_SHOW(name), e.msg);
    return st == PG_OK ? PG_E_UNKNOWN : st; /* noted */
}

void pg__zero_close(pg__pt_source *f)
{
    pg__io_close(f->io);
    pg__pt_source_fini(f);
}

pg_status pg__zero_part(pg_store **out, pg__zero_reading *r, pg__pt_source *f, const char *name,
                        const char *part)
{
    const pg_open_opts opts = {.part = part};
    const pg_status st = pg__pt_zip_store(out, f, &opts, r->err);
    if (st != PG_OK)
        pg_err_prefix(r->err, PG_SHOW(name));
    return st;
}

pg_status pg__zero_part_of(pg_store **out, pg__zero_reading *r, const char *name, const char *part)
{
    pg__pt_source f = {0};
    pg_status st = pg__zero_open(r, &f, name);
    if (st == PG_OK)
        st = pg__zero_part(out, r, &f, name, part);
    pg__zero_close(&f);
    return st;
}

/* What precedes "zero_pp_rank_" in the name of the first optim_states: "bf16_" or nothing. */
static int prefix_of(const char *path)
{
    const char *base = pg__base_name(path), *at = strstr(base, "zero_pp_rank_");
    return at ? (int)(at - base) : 0;
}

pg_status pg__zero_optim_name(pg__str *out, const pg__zero_reading *r, uint64_t rank)
{
    out->n = 0;
    return pg__str_printf(out, r->err, "%.*szero_pp_rank_%llu_mp_rank_%02u_optim_states.pt",
                          prefix_of(r->path), pg__base_name(r->path), (unsigned long long)rank,
                          r->z->slice);
}

pg_status pg__zero_model_name(pg__str *out, const pg__zero_reading *r, uint64_t rank)
{
    out->n = 0;
    return r->z->stage == 3
               ? pg__str_printf(out, r->err, "zero_pp_rank_%llu_mp_rank_%02u_model_states.pt",
                                (unsigned long long)rank, r->z->slice)
               : pg__str_printf(out, r->err, "mp_rank_%02u_model_states.pt", r->z->slice);
}
