/* split_jobs.c - several processes, on one machine or on many, write the shards of one folder:
 * shard i belongs to job 1 + i % n_jobs. They need not know of each other. A job that has written
 * its shards leaves a record with their checksums; the last call finds the records of all, reads
 * every shard once, and only then writes the index. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"
#include "wrap/shard/split.h"

#define RECORD_NAME PG_JOB_RECORD "%05u-of-%05u"
#define HEAD        "libpg %zu shards, plan %08" PRIx32 "\n"
#define LINE        "%zu %08" PRIx32 "\n"

int pg__split_is_mine(const pg__split *s, size_t shard)
{
    return s->o->n_jobs == 0 || shard % s->o->n_jobs == s->o->job - 1;
}

static uint32_t plan_of(const pg__job_shard *v, size_t n)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        crc = pg__crc32(crc, v[i].name, strlen(v[i].name));
        crc = pg__crc32(crc, &v[i].n_bytes, sizeof v[i].n_bytes);
        crc = pg__crc32(crc, &v[i].head, sizeof v[i].head);
    }
    return crc;
}

static pg_status put_record(pg__split *s, pg__split_out *f, void *ctx, pg_err *err)
{
    const pg__str *text = ctx;
    pg_status st = PG_OK;
    for (size_t at = 0; at < text->n && st == PG_OK; at += PG_COPY_BYTES) {
        const size_t left = text->n - at;
        st = pg__split_put(s, f, text->s + at, left < PG_COPY_BYTES ? left : PG_COPY_BYTES, err);
    }
    return st;
}

pg_status pg__split_end_job(pg__split *s, const pg__job_shard *v, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    char name[64];
    pg__split_made made = {0};
    (void)snprintf(name, sizeof name, RECORD_NAME, s->o->job, s->o->n_jobs);
    PG_TRY(pg_store_check_same(s->r.s, err));
    PG_TRY(pg__str_printf(&text, err, HEAD, n, plan_of(v, n)));
    for (size_t i = 0; i < n; i++)
        if (pg__split_is_mine(s, i))
            PG_TRY(pg__str_printf(&text, err, LINE, i, v[i].crc));
    PG_TRY(pg__split_sync(s, err)); /* the record says that the shards are there */
    PG_TRY(pg__split_produce(s, 0, name, text.n, put_record, &text, &made, err));
done:
    pg__str_fini(&text);
    return st;
}

/* ---- the last call ---- */

typedef struct records {
    pg__split *s;
    pg__job_shard *v;
    unsigned char *told; /* by shard */
    size_t n;
    unsigned n_jobs, n_found;
    int mixed; /* jobs of several N have written; what they wrote is the same */
} records;

static pg_status load(pg__str *out, const records *r, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    pg__str path = {0};
    char text[4096];
    PG_TRY(pg__split_path(&path, r->s, name, err));
    PG_TRY(pg__io_open(&io, path.s, err));
    for (uint64_t at = 0, size = pg__io_size(io); at < size && size < PG_LIMIT_JSON_BYTES;) {
        const size_t n = size - at < sizeof text ? (size_t)(size - at) : sizeof text;
        PG_TRY(pg__io_read(io, at, text, n, err));
        PG_TRY(pg__str_add(out, text, n, err));
        at += n;
    }
done:
    pg__io_close(io);
    pg__str_fini(&path);
    return st;
}

/* The sums of one job. */
static pg_status take_record(records *r, const char *name, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0}, head = {0};
    unsigned job = 0, n_jobs = 0;
    if (sscanf(name, RECORD_NAME, &job, &n_jobs) != 2 || job == 0 || job > n_jobs)
        return PG_OK;
    PG_TRY(load(&text, r, name, err));
    PG_TRY(pg__str_printf(&head, err, HEAD, r->n, plan_of(r->v, r->n)));
    if (text.n < head.n || memcmp(text.s, head.s, head.n) != 0)
        PG_FAIL(PG_E_ARG,
                "%s: job %u of %u had another input or other options than this call; give this "
                "call its options, or, if it was of an earlier try, remove %s",
                PG_SHOW(r->s->dir), job, n_jobs, name);
    r->mixed |= r->n_jobs && n_jobs != r->n_jobs;
    r->n_jobs = n_jobs;
    r->n_found++;
    for (const char *line = text.s + head.n; line && *line; line = strchr(line, '\n') + 1) {
        size_t i = 0;
        uint32_t crc = 0;
        if (!strchr(line, '\n') || sscanf(line, "%zu %8" SCNx32, &i, &crc) != 2 || i >= r->n)
            PG_FAIL(PG_E_FORMAT, "%s: %s is damaged; run job %u again", PG_SHOW(r->s->dir), name,
                    job);
        r->v[i].crc = crc;
        r->told[i] = 1;
    }
done:
    pg__str_fini(&text);
    pg__str_fini(&head);
    return st;
}

static pg_status take_records(records *r, pg_err *err)
{
    pg_status st = PG_OK;
    int sys = 0;
    pg__strs names = {0};
    DIR *d = pg__folder_list(r->s->into);
    if (!d)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(r->s->dir));
    for (const struct dirent *e; (e = pg__folder_next(d, &sys));)
        if (strncmp(e->d_name, PG_JOB_RECORD, sizeof PG_JOB_RECORD - 1) == 0)
            PG_TRY(pg__strs_add(&names, e->d_name, strlen(e->d_name), err));
    if (sys)
        PG_TRY(pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(r->s->dir)));
    pg__strs_sort(&names);
    for (size_t i = 0; i < names.n; i++)
        PG_TRY(take_record(r, names.v[i], err));
    if (r->n_found == 0)
        st = pg_fail(err, PG_E_ARG, "%s: no job has written here yet", PG_SHOW(r->s->dir));
done:
    closedir(d);
    pg__strs_fini(&names);
    return st;
}

/* Notes that shard i is not right, and which job will mend it. */
static pg_status add_fault(records *r, size_t i, int damaged, pg_err *err)
{
    pg_shard_report *rep = &r->s->rep;
    const size_t job = 1 + i % r->n_jobs;
    pg_status st = PG_OK;
    pg__str text = {0};
    PG_TRY(pg__str_puts(&text, r->v[i].name, err));
    if (r->mixed)
        PG_TRY(pg__str_puts(&text, " (run its job again)", err));
    else if (r->told[i])
        PG_TRY(pg__str_printf(&text, err, " (run job %zu again)", job));
    else
        PG_TRY(pg__str_printf(&text, err, " (of job %zu, which has not ended)", job));
    st = damaged ? pg__finding_add(&rep->damaged, &rep->n_damaged, text.s, err)
                 : pg__finding_add(&rep->missing, &rep->n_missing, text.s, err);
done:
    pg__str_fini(&text);
    return st;
}

/* Reads shard i once. */
static pg_status check_shard(records *r, size_t i, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__job_shard *v = &r->v[i];
    pg__str path = {0};
    pg__io *io = NULL;
    uint32_t crc = 0;
    if (!r->told[i])
        return add_fault(r, i, 0, err);
    PG_TRY(pg__split_path(&path, r->s, v->name, err));
    PG_TRY(pg__io_open_if(&io, path.s, err));
    if (!io) {
        st = add_fault(r, i, 0, err);
        goto done;
    }
    PG_TRY(pg__split_keep(r->s, v->name, io, v->n_tensors, &crc, err));
    if (pg__io_size(io) != v->n_bytes || crc != v->crc)
        st = add_fault(r, i, 1, err);
done:
    pg__io_close(io);
    pg__str_fini(&path);
    return st;
}

pg_status pg__split_collect(pg__split *s, pg__job_shard *v, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    records r = {.s = s, .v = v, .n = n, .told = pg__mem_array(n, 1)};
    if (!r.told)
        return pg__nomem(err);
    PG_TRY(take_records(&r, err));
    for (size_t i = 0; i < n; i++)
        PG_TRY(check_shard(&r, i, err));
    if (s->rep.n_missing + s->rep.n_damaged)
        PG_FAIL(PG_E_FORMAT, "%s: %zu of %zu shards missing or damaged; no index written",
                PG_SHOW(s->dir), s->rep.n_missing + s->rep.n_damaged, n);
done:
    pg__mem_free(r.told);
    return st;
}

void pg__split_forget_jobs(pg__split *s)
{
    int sys = 0;
    pg__str path = {0};
    DIR *d = pg__folder_list(s->into);
    for (const struct dirent *e; d && (e = pg__folder_next(d, &sys));)
        if (strncmp(e->d_name, PG_JOB_RECORD, sizeof PG_JOB_RECORD - 1) == 0 &&
            pg__split_path(&path, s, e->d_name, NULL) == PG_OK)
            (void)unlink(path.s); /* what stays is known for a record */
    if (d)
        closedir(d);
    pg__str_fini(&path);
}
