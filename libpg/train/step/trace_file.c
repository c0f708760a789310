/* trace_file.c - Chrome's trace event format: an object with the list "traceEvents". A span is a
 * complete event ("ph": "X"); pid is the rank, ts and dur are microseconds. Spans of a thread must
 * nest, so times are cut to whole nanoseconds before durations are taken. Sums of buckets may
 * overlap: each goes to the first row that is free, and rows look like threads. Perfetto takes a
 * tid for the same thread in whichever process it stands, and one that equals the pid for the main
 * thread: so tids are unique, and far above the ranks. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/io.h"
#include "io/sink.h"
#include "pg/file.h"
#include "pg/pg.h"
#include "train/step/ranks.h"
#include "train/step/traced.h"

#define BLOCK ((size_t)1 << 16) /* bytes of text between two writes */
#define ROWS  64u               /* of sums at once */
#define TIDS  10000u            /* of a rank */

/* The beginning of every such file. */
static const char mark[] = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"writer\":\"libpg ";

struct pg__trace_file {
    const pg_trainer *t;
    pg_file *file;
    pg__str text;
    pg_status st;
    pg_err err;
    double origin;
    /* the current rank and track */
    size_t rank, track;
    int has_events; /* anything stands in the list */
    pg__str clocks; /* per rank: how far off its clock may be */
    pg__rank_trace of;
    uint64_t free_at[ROWS]; /* ns */
    size_t n_rows;
};

static const struct {
    const char *name, *category, *a, *b; /* a, b: what the event's numbers mean; NULL: nothing */
} kinds[PG_TRACE_N] = {
    [PG_TRACE_OPERATION] = {"operation", "", NULL, NULL},
    [PG_TRACE_STEP] = {"step", "step", "step", "rows"},
    [PG_TRACE_VALIDATION] = {"validation batch", "step", "batch", "rows"},
    [PG_TRACE_PREPARE] = {"prepare", "step", NULL, NULL},
    [PG_TRACE_PASSES] = {"forward and backward", "step", NULL, NULL},
    [PG_TRACE_FORWARD] = {"forward", "step", NULL, NULL},
    [PG_TRACE_SUM] = {"sum of gradients", "exchange", NULL, NULL},
    [PG_TRACE_UPDATE] = {"update", "update", NULL, NULL},
    [PG_TRACE_UPDATE_PART] = {"update of a part", "update", NULL, NULL},
    [PG_TRACE_LOSS] = {"loss and metrics", "step", NULL, NULL},
    [PG_TRACE_WAIT_FOR_DATA] = {"wait for data", "data", NULL, NULL},
    [PG_TRACE_AFTER] = {"callbacks", "callbacks", NULL, NULL},
    [PG_TRACE_READ] = {"read a batch", "data", NULL, "rows"},
    [PG_TRACE_WRITE] = {"write a file", "files", NULL, NULL},
    [PG_TRACE_BUCKET] = {"bucket", "exchange", "bucket", "bytes"},
};

/* ---- text ---- */

static void flush(pg__trace_file *f)
{
    if (f->st == PG_OK)
        f->st = pg_file_write(f->file, f->text.s, f->text.n, &f->err);
    f->text.n = 0;
}

static void puts_to(pg__trace_file *f, const char *text)
{
    if (f->st == PG_OK)
        f->st = pg__str_puts(&f->text, text, &f->err);
}

static void put_quoted(pg__trace_file *f, const char *text)
{
    if (f->st == PG_OK)
        f->st = pg__json_quote(&f->text, text, strlen(text), &f->err);
}

PG_PRINTF(2, 3) static void put(pg__trace_file *f, const char *fmt, ...)
{
    char s[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    puts_to(f, s);
    if (f->text.n >= BLOCK)
        flush(f);
}

/* ---- events ---- */

static uint64_t ns_of(const pg__trace_file *f, double at)
{
    const double s = at + f->of.clock.add - f->origin;
    return s > 0 ? (uint64_t)(s * 1e9) : 0;
}

/* Begins an event of this rank. */
static void begin(pg__trace_file *f, char phase, size_t thread)
{
    put(f, "%s{\"ph\":\"%c\",\"pid\":%zu,\"tid\":%zu,", f->has_events ? ",\n" : "", phase, f->rank,
        (f->rank + 1) * TIDS + thread);
    f->has_events = 1;
}

/* The name of this rank, or of a thread of it. */
static void put_name(pg__trace_file *f, const char *of, size_t thread, const char *name)
{
    begin(f, 'M', thread);
    put(f, "\"name\":\"%s\",\"args\":{\"%s\":", of,
        strcmp(of, "process_labels") == 0 ? "labels" : "name");
    put_quoted(f, name);
    puts_to(f, "}}");
}

static void put_order(pg__trace_file *f, const char *of, size_t thread, size_t place)
{
    begin(f, 'M', thread);
    put(f, "\"name\":\"%s\",\"args\":{\"sort_index\":%zu}}", of, place);
}

static void name_thread(pg__trace_file *f, size_t thread, const char *name)
{
    put_name(f, "thread_name", thread, name);
    put_order(f, "thread_sort_index", thread, thread);
}

static void put_operation(pg__trace_file *f, const pg__trace_event *e)
{
    const uint64_t kind = e->b & (PG_TRACE_BACKWARD - 1);
    const pg__leaves *l = &f->t->net.leaves;
    const char *layer = e->a < l->n ? l->v[e->a].layer->name : "";
    const char *op = kind < PG_N_OPS ? pg__op_of((pg__op_kind)kind)->name : "";
    pg__str name = {0};
    if (f->st == PG_OK)
        f->st = pg__str_printf(&name, &f->err, "%s %s", layer, op);
    puts_to(f, "\"name\":");
    put_quoted(f, name.s ? name.s : "");
    put(f,
        ",\"cat\":\"%s\",\"args\":{\"layer\":", e->b & PG_TRACE_BACKWARD ? "backward" : "forward");
    put_quoted(f, layer);
    puts_to(f, ",\"op\":");
    put_quoted(f, op);
    puts_to(f, "}}");
    pg__str_fini(&name);
}

static void put_other(pg__trace_file *f, const pg__trace_event *e)
{
    const char *a = kinds[e->what].a, *b = kinds[e->what].b;
    put(f, "\"name\":\"%s", kinds[e->what].name);
    if (a)
        put(f, " %" PRIu32, e->a);
    put(f, "\",\"cat\":\"%s\",\"args\":{", kinds[e->what].category);
    if (a)
        put(f, "\"%s\":%" PRIu32 "%s", a, e->a, b ? "," : "");
    if (b)
        put(f, "\"%s\":%" PRIu64, b, e->b);
    puts_to(f, "}}");
}

/* The row of a sum, which is named when it is first used. */
static size_t row_of(pg__trace_file *f, uint64_t from, uint64_t to)
{
    const size_t first = f->of.n_workers + PG_TRACE_EXCHANGE;
    char name[64];
    size_t k = 0;
    while (k + 1 < ROWS && f->free_at[k] > from)
        k++;
    f->free_at[k] = to;
    for (; f->n_rows <= k; f->n_rows++) {
        snprintf(name, sizeof name, "exchange of gradients, %zu", f->n_rows + 1);
        name_thread(f, first + f->n_rows, name);
    }
    return first + k;
}

static void put_event(pg__trace_file *f, const pg__trace_event *e)
{
    const uint64_t from = ns_of(f, e->began), to = ns_of(f, e->ended),
                   dur = to > from ? to - from : 0;
    const size_t thread = e->what == PG_TRACE_BUCKET ? row_of(f, from, to) : f->track;
    begin(f, 'X', thread);
    put(f, "\"ts\":%" PRIu64 ".%03u,\"dur\":%" PRIu64 ".%03u,", from / 1000,
        (unsigned)(from % 1000), dur / 1000, (unsigned)(dur % 1000));
    if (e->what == PG_TRACE_OPERATION)
        put_operation(f, e);
    else
        put_other(f, e);
}

void pg__trace_file_track(pg__trace_file *f, const pg__trace_track *track)
{
    const size_t extra = f->track - f->of.n_workers;
    char name[64] = "worker 0, main thread";
    if (f->track > 0)
        snprintf(name, sizeof name, "worker %zu", f->track);
    if (f->track < f->of.n_workers)
        name_thread(f, f->track, name);
    else if (track->n > 0 && extra < PG_TRACE_EXCHANGE)
        name_thread(f, f->track, extra == PG_TRACE_READING ? "reading" : "writing");
    for (size_t i = 0; i < track->n; i++)
        if (track->events[i].what < PG_TRACE_N)
            put_event(f, &track->events[i]);
    f->track++;
}

void pg__trace_file_rank(pg__trace_file *f, size_t rank, const pg__rank_trace *r)
{
    const pg__comm *c = f->t->ranks ? f->t->ranks->comm : NULL;
    char name[128];
    f->rank = rank;
    f->track = 0;
    f->of = *r;
    f->n_rows = 0;
    memset(f->free_at, 0, sizeof f->free_at);
    if (c)
        snprintf(name, sizeof name, "rank %zu on %s", rank, pg__comm_host(c, rank));
    else
        snprintf(name, sizeof name, "rank 0");
    put_name(f, "process_name", 0, name);
    put_order(f, "process_sort_index", 0, rank);
    put_name(f, "process_labels", 0, r->devices);
    if (f->st == PG_OK)
        f->st = pg__str_printf(&f->clocks, &f->err, "%s%.3f", f->clocks.n > 0 ? "," : "",
                               r->clock.error * 1e6);
}

/* ---- the file ---- */

static void put_head(pg__trace_file *f, const pg__traced *of)
{
    const size_t n = f->t->ranks ? pg__comm_size(f->t->ranks->comm) : 1;
    puts_to(f, mark);
    put(f, "%s\",\"first_step\":%" PRIu64 ",\"last_step\":%" PRIu64 ",\"ranks\":%zu,", pg_version(),
        of->first, of->last, n);
    put(f, "\"ranks_missing\":%zu},\n\"traceEvents\":[\n", of->is_alone ? n - 1 : 0);
}

pg_status pg__trace_file_new(pg__trace_file **out, const pg_trainer *t, const pg__traced *of,
                             pg_err *err)
{
    pg__trace_file *f = pg__mem_array(1, sizeof *f);
    if (!f)
        return pg__nomem(err);
    f->t = t;
    f->origin = of->origin;
    f->st = pg_file_create(&f->file, of->path, &(pg_file_opts){.force = 1}, &f->err);
    put_head(f, of);
    *out = f;
    return PG_OK;
}

pg_status pg__trace_file_commit(pg__trace_file *f, pg_err *err)
{
    puts_to(f, "\n],\n\"clockErrorUs\":[");
    puts_to(f, f->clocks.s ? f->clocks.s : "");
    puts_to(f, "]}\n");
    flush(f);
    if (f->st == PG_OK)
        f->st = pg_file_commit(f->file, NULL, &f->err);
    if (f->st != PG_OK && err)
        *err = f->err;
    return f->st;
}

void pg__trace_file_free(pg__trace_file *f)
{
    if (!f)
        return;
    pg_file_close(f->file);
    pg__str_fini(&f->clocks);
    pg__str_fini(&f->text);
    pg__mem_free(f);
}

pg_status pg__traced_check(const char *path, pg_err *err)
{
    char head[sizeof mark] = "";
    pg__io *io = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__sink_check(path, &(pg__sink_opts){.force = 1}, err));
    PG_TRY(pg__io_open_if(&io, path, err));
    if (io && pg__io_size(io) >= sizeof mark)
        PG_TRY(pg__io_read(io, 0, head, sizeof mark - 1, err));
    if (io && memcmp(head, mark, sizeof mark - 1) != 0)
        PG_FAIL(PG_E_ARG, "%s exists and is not a trace; choose another name", PG_SHOW(path));
done:
    pg__io_close(io);
    return st;
}
