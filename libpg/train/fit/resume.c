/* resume.c - saves and restores the state of a run; see resume.h, and resume_file.h for the file.
 *
 *   settings   the program's own text: its options
 *   facts      what must be the same
 *   state      the position of the run, the optimizer's counters, averages, callbacks
 *   weights    all parameters as they lie on the device; slot0, ... the optimizer's state
 *   rows       the states of stateful layers */
#include "train/fit/resume.h"

#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/try.h"
#include "train/fit/facts.h"
#include "train/model/model.h"
#include "train/step/step.h"

pg_status pg__resume_open(pg__resume *r, pg__fit *f, pg_err *err)
{
    pg_status st = PG_OK;
    r->fit = f;
    r->saved = pg__now();
    pg__output_mark(r->output, f->opts->replaces_output ? f->opts->output : NULL);
    if (!f->resume_file)
        return PG_OK;
    if (f->resume == 0)
        PG_TRY(pg__resume_file_check(f->resume_file, err));
    PG_TRY(pg__facts_of(&r->facts, f, err));
done:
    return st;
}

void pg__resume_close(pg__resume *r)
{
    pg__str_fini(&r->facts);
    pg__mem_free(r->kind);
}

int pg__resume_is_due(const pg__resume *r)
{
    const pg__fit *f = r->fit;
    return f->resume_file &&
           (f->keeps_state || (f->resume_every > 0 && pg__now() - r->saved >= f->resume_every));
}

/* ---- the state ---- */

static void keep_optimizer(pg_trainer *t, pg__archive *a)
{
    pg__archive_real(a, &t->compiled.optimizer.lr);
    pg__archive_u64(a, &t->compiled.optimizer.iterations);
    pg__archive_real(a, &t->compiled.optimizer.nadam_product);
    pg__archive_u64(a, &t->loop.n_moves);
    pg__archive_real(a, &t->compiled.scale.now);
    pg__archive_u64(a, &t->compiled.scale.n_good);
    pg__archive_u64(a, &t->compiled.scale.n_skipped);
}

static void keep_kind(pg__resume *r, pg__archive *a)
{
    const pg_trainer *t = r->fit->t;
    pg__mem_free(r->kind);
    r->kind = pg__mem_strdup(pg__mixed_kind(t));
    if (!r->kind)
        a->st = PG_E_NOMEM;
    pg__archive_text(a, &r->kind);
}

static void keep_all(pg__resume *r, pg__archive *a)
{
    keep_kind(r, a);
    r->keep(r->run, a);
    keep_optimizer(r->fit->t, a);
    pg__archive_u64(a, &r->fit->t->loop.state_rows);
    pg__archive_int(a, &r->fit->stops);
    pg__calls_keep(r->fit, a);
    if (a->st == PG_OK && !a->writes && a->at != a->n)
        a->st = PG_E_FORMAT;
}

/* ---- saving ---- */

typedef struct saving {
    pg__resume *of;
    char *path;
    char *moved; /* where an earlier run's file was moved, or NULL */
    int over;    /* the run is over */
    pg__str state, facts, settings, rows;
    pg__snapshot *snapshot;
} saving;

static void free_saving(void *ctx)
{
    saving *s = ctx;
    pg__mem_free(s->path);
    pg__mem_free(s->moved);
    pg__str_fini(&s->state);
    pg__str_fini(&s->facts);
    pg__str_fini(&s->settings);
    pg__str_fini(&s->rows);
    pg__snapshot_drop(s->snapshot);
    pg__mem_free(s);
}

/* A slot of the snapshot. */
typedef struct saved_slot {
    const pg__snapshot *from;
    size_t slot;
} saved_slot;

static pg_status read_slot(void *ctx, uint64_t off, void *buf, size_t n, pg_err *err)
{
    const saved_slot *s = ctx;
    return pg__snapshot_read(s->from, s->slot, off, buf, n, err);
}

static pg_status write_saving(void *ctx, pg_err *err)
{
    static const char *const slot_names[PG_MAX_SLOTS] = {"slot0", "slot1", "slot2", "slot3"};
    saving *s = ctx;
    saved_slot slots[PG_MAX_SLOTS];
    pg__part parts[PG_RESUME_PARTS] = {
        {.name = "settings", .data = s->settings.s, .n_bytes = s->settings.n},
        {.name = "facts", .data = s->facts.s, .n_bytes = s->facts.n},
        {.name = "state", .data = s->state.s, .n_bytes = s->state.n},
        {.name = "rows", .data = s->rows.s, .n_bytes = s->rows.n},
        {.name = PG_RESUME_OUTPUT, .data = s->of->output, .n_bytes = PG_OUTPUT_BYTES},
        {.name = PG_RESUME_OVER, .data = "1", .n_bytes = s->over ? 1 : 0},
        {.name = "weights", .data = s->snapshot->params, .n_bytes = s->snapshot->n_bytes}};
    size_t n = 7;
    for (size_t k = 0; k < PG_MAX_SLOTS; k++)
        if (s->snapshot->has_slot[k]) {
            slots[k] = (saved_slot){s->snapshot, k};
            strcpy(parts[n].name, slot_names[k]);
            parts[n].read = read_slot;
            parts[n].ctx = &slots[k];
            parts[n++].n_bytes = s->snapshot->n_bytes;
        }
    pg_status st = PG_OK;
    if (!s->of->is_own)
        PG_TRY(pg__resume_file_set_aside(s->path, &s->moved, err));
    s->of->is_own = 1;
    PG_TRY(pg__resume_file_write(s->path, parts, n, err));
done:
    return st;
}

/* Reports a failure once, until saving works again. */
static pg_status report_saved(void *ctx, pg_status result, const pg_err *why, pg_err *err)
{
    saving *s = ctx;
    pg__resume *r = s->of;
    const int again = r->failed;
    pg_status st = PG_OK;
    r->failed = result != PG_OK;
    r->has_saved |= result == PG_OK;
    if (s->moved)
        PG_TRY(pg__fit_event(r->fit, PG_EVENT_NOTE, s->path, err,
                             "%s of an earlier run is kept as %s", PG_SHOW(s->path),
                             PG_SHOW(s->moved)));
    if (result == PG_OK || again)
        goto done;
    r->why = *why;
    PG_TRY(pg__fit_event(r->fit, PG_EVENT_WARNING, s->path, err,
                         "the state of the run could not be saved, training goes on: %s",
                         why->msg));
done:
    return st;
}

static pg_status read_rows(pg__resume *r, pg__str *out, pg_err *err)
{
    pg_trainer *t = r->fit->t;
    pg_status st = PG_OK;
    for (size_t k = 0; t->loop.states && k < t->net.built_params.n_states; k++) {
        const size_t n = pg__states_bytes(t, k);
        void *raw = pg__mem_array(n, 1);
        if (!raw)
            return pg__nomem(err);
        st = t->devs.backend->get(t->devs.dev, raw, t->loop.states[k], n);
        if (st == PG_OK)
            st = pg__str_add(out, raw, n, err);
        pg__mem_free(raw);
        PG_TRY(st);
    }
done:
    return st;
}

pg_status pg__resume_save(pg__resume *r, pg__resume_when when, pg_err *err)
{
    static const pg__write_job job = {
        .work = write_saving, .done = report_saved, .free = free_saving};
    pg__archive a = {.writes = 1};
    pg__write_job given = job;
    pg_status st = PG_OK;
    saving *s = pg__mem_array(1, sizeof *s);
    if (!s)
        return pg__nomem(err);
    r->saved = pg__now();
    r->fit->keeps_state = 0;
    s->of = r;
    s->over = when == PG_RESUME_AT_END;
    s->path = pg__mem_strdup(r->fit->resume_file);
    if (!s->path)
        PG_TRY(pg__nomem(err));
    keep_all(r, &a);
    s->state = a.out;
    if (a.st != PG_OK)
        PG_TRY(pg__nomem(err));
    if (r->fit->opts->settings)
        PG_TRY(pg__str_puts(&s->settings, r->fit->opts->settings, err));
    PG_TRY(pg__str_add(&s->facts, r->facts.s, r->facts.n, err));
    PG_TRY(read_rows(r, &s->rows, err));
    PG_TRY(pg__fit_snapshot(r->fit, 1, &s->snapshot, err));
    given.ctx = s;
    s = NULL;
    PG_TRY(pg__writer_give(r->fit->writer, &given, err));
    if (when != PG_RESUME_BETWEEN)
        PG_TRY(pg__writer_wait(r->fit->writer, err));
done:
    if (s)
        free_saving(s);
    return st;
}

/* ---- going on ---- */

static pg_status restore_flat(pg_trainer *t, const pg__resume_file *file, const char *name,
                              pg__flat *to, pg_err *err)
{
    const uint64_t n = t->vars.offsets[t->vars.n_params] * t->devs.backend->real_bytes,
                   chunk = 1u << 20;
    char *buf = pg__mem_array((size_t)chunk, 1);
    pg_status st = PG_OK;
    if (!buf)
        return pg__nomem(err);
    for (uint64_t at = 0; at < n && st == PG_OK; at += chunk) {
        const size_t some = (size_t)(n - at < chunk ? n - at : chunk);
        st = pg__resume_file_read(file, name, at, buf, some, err);
        if (st == PG_OK)
            st = pg__flat_put(t, to, at, buf, some, err);
    }
    pg__mem_free(buf);
    return st;
}

static pg_status restore_rows(pg_trainer *t, const pg__resume_file *file, pg_err *err)
{
    const uint64_t n_rows = t->loop.state_rows;
    uint64_t at = 0;
    pg_status st = PG_OK;
    if (n_rows == 0 || t->net.built_params.n_states == 0)
        return PG_OK;
    pg__states_free(t);
    PG_TRY(pg__states_reserve(t, n_rows, err));
    for (size_t k = 0; k < t->net.built_params.n_states; k++) {
        const size_t n = pg__states_bytes(t, k);
        void *raw = pg__mem_array(n, 1);
        if (!raw)
            return pg__nomem(err);
        st = pg__resume_file_read(file, "rows", at, raw, n, err);
        if (st == PG_OK)
            st = t->devs.backend->put(t->devs.dev, t->loop.states[k], raw, n);
        pg__mem_free(raw);
        PG_TRY(st);
        at += n;
    }
done:
    return st;
}

/* Checks that everything to restore is there, in the sizes of this model. */
static pg_status check_sizes(const pg_trainer *t, const pg__resume_file *file, pg_err *err)
{
    static const char *const names[] = {"weights", "slot0", "slot1", "slot2", "slot3"};
    const uint64_t n = t->vars.offsets[t->vars.n_params] * t->devs.backend->real_bytes;
    for (size_t i = 0; i < 1 + PG_MAX_SLOTS; i++) {
        const int wanted = i == 0 || t->vars.slots[i - 1].mem != NULL;
        if (pg__resume_file_bytes(file, names[i]) != (wanted ? n : 0))
            return pg_fail(err, PG_E_MISMATCH, "%s belong to another model or optimizer", names[i]);
    }
    return PG_OK;
}

static pg_status restore(pg__resume *r, const pg__resume_file *file, const char *state, size_t n,
                         pg_err *err)
{
    static const char *const slot_names[PG_MAX_SLOTS] = {"slot0", "slot1", "slot2", "slot3"};
    pg__archive a = {.in = (const unsigned char *)state, .n = n};
    pg_trainer *t = r->fit->t;
    pg_status st = PG_OK;
    keep_all(r, &a);
    pg__loss_scale_resumed(&t->compiled);
    if (a.st != PG_OK)
        PG_FAIL(a.st, a.st == PG_E_NOMEM ? "out of memory" : "its state is from another version");
    PG_TRY(restore_flat(t, file, "weights", &t->vars.params, err));
    for (size_t k = 0; k < PG_MAX_SLOTS; k++)
        if (t->vars.slots[k].mem)
            PG_TRY(restore_flat(t, file, slot_names[k], &t->vars.slots[k], err));
    PG_TRY(restore_rows(t, file, err));
    t->vars.version++;
done:
    if (st != PG_OK)
        pg__states_free(t); /* the number of rows may have been set already */
    return st;
}

static pg_status load_from(pg__resume *r, const pg__resume_file *file, pg_err *err)
{
    char *facts = NULL, *state = NULL;
    size_t n_facts = 0, n_state = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__resume_file_text(file, "facts", &facts, &n_facts, err));
    PG_TRY(pg__resume_file_text(file, "state", &state, &n_state, err));
    PG_TRY(pg__facts_compare(&r->facts, facts, err));
    PG_TRY(check_sizes(r->fit->t, file, err));
    PG_TRY(restore(r, file, state, n_state, err));
done:
    pg__mem_free(facts);
    pg__mem_free(state);
    return st;
}

static pg_status load_one(pg__resume *r, const char *path, pg_err *err)
{
    pg__resume_file file = {.io = NULL};
    pg_status st = pg__resume_file_open(&file, path, err);
    if (st != PG_OK)
        return st;
    st = load_from(r, &file, err);
    r->mark = 0;
    for (size_t i = 0; i < file.n_parts; i++)
        r->mark = pg__crc32(r->mark, &file.parts[i].crc, sizeof file.parts[i].crc);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    pg__resume_file_close(&file);
    return st;
}

/* Different options are not damage: the previous file would have the same. */
static int is_damage(pg_status st)
{
    return st == PG_E_FORMAT || st == PG_E_IO || st == PG_E_UNSUPPORTED;
}

/* Deterministic runs give equal bits only on processors that compute alike. */
static pg_status note_kind(const pg__resume *r, pg_err *err)
{
    const pg_trainer *t = r->fit->t;
    const char *now = pg__mixed_kind(t);
    if (t->pool.cut.n_lanes == 0 || !r->kind || strcmp(now, r->kind) == 0)
        return PG_OK;
    return pg__fit_event(r->fit, PG_EVENT_NOTE, NULL, err,
                         "computed with %s so far, with %s from here on: the last bits differ from "
                         "those of an uninterrupted run",
                         PG_SHOW(r->kind), now);
}

pg_status pg__resume_load(pg__resume *r, int *found, pg_err *err)
{
    const char *path = r->fit->resume_file;
    pg_err first = {0}, second = {0};
    pg__str older = {0};
    pg_status st = PG_OK;
    *found = 0;
    PG_TRY(pg__str_printf(&older, err, "%s.1", path));
    const int has = access(path, F_OK) == 0, has_older = access(older.s, F_OK) == 0;
    if (!has && !has_older) {
        if (r->fit->resume == 2)
            goto done;
        PG_FAIL(PG_E_IO, "%s: there is no run to resume", PG_SHOW(path));
    }
    st = load_one(r, path, &first);
    if (is_damage(st) && has_older) {
        st = load_one(r, older.s, &second);
        if (st == PG_OK)
            st = pg__fit_event(r->fit, PG_EVENT_WARNING, older.s, err,
                               "%s; resuming from the previous one, %s", first.msg,
                               PG_SHOW(older.s));
    }
    *found = r->is_own = st == PG_OK;
    if (st != PG_OK && err)
        *err = is_damage(second.code) || second.code == PG_OK ? first : second;
    if (is_damage(st))
        pg_err_do(err, PG_DO_START_AFRESH, NULL);
    if (st == PG_OK)
        PG_TRY(note_kind(r, err));
done:
    pg__str_fini(&older);
    return st;
}

void pg__resume_remove(const pg__resume *r)
{
    pg__str older = {0};
    if (!r->fit->resume_file)
        return;
    if (pg__str_printf(&older, NULL, "%s.1", r->fit->resume_file) == PG_OK)
        (void)unlink(older.s);
    (void)unlink(r->fit->resume_file);
    pg__str_fini(&older);
}

static pg_status read_settings(char **out, const char *path, pg_err *err)
{
    pg__resume_file file = {.io = NULL};
    size_t n = 0;
    pg_status st = pg__resume_file_open(&file, path, err);
    if (st != PG_OK)
        return st;
    st = pg__resume_file_text(&file, "settings", out, &n, err);
    if (st != PG_OK)
        pg_err_prefix(err, PG_SHOW(path));
    pg__resume_file_close(&file);
    return st;
}

pg_status pg_resume_settings(char **out, const char *resume_file, pg_err *err)
{
    pg__str older = {0};
    pg_status st = read_settings(out, resume_file, err);
    if (is_damage(st) && pg__str_printf(&older, NULL, "%s.1", resume_file) == PG_OK &&
        read_settings(out, older.s, NULL) == PG_OK)
        st = PG_OK;
    pg__str_fini(&older);
    return st;
}
