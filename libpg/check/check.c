/* check.c - pg_check_file(): checks whether Keras' strict loader takes a file on one device. A
 * failed check is an answer, not an error; an error means that the checks could not be made. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "check/check_impl.h"
#include "format/fmt_keras_h5.h"
#include "format/fmt_keras_v3.h"
#include "format/shards.h"

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pg__mem_free(list[i]);
    pg__mem_free(list);
}

void pg_check_report_fini(pg_check_report *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_checks; i++) {
        pg__mem_free(r->checks[i].summary);
        free_list(r->checks[i].details, r->checks[i].n_details);
    }
    pg__mem_free(r->checks);
    pg__mem_free(r->hint);
    free_list(r->notes, r->n_notes);
    *r = (pg_check_report){0};
}

/* ---- lines of the report ---- */

enum { N_CHECKS = 6 };

PG_PRINTF(4, 0)
static pg_status add_line(char ***list, size_t *n, pg_err *err, const char *fmt, va_list ap)
{
    char line[1024];
    (void)vsnprintf(line, sizeof line, fmt, ap);
    return pg__finding_add(list, n, line, err);
}

pg_status pg__check_add(pg__checking *c, const char *name, int ok, pg_err *err, const char *fmt,
                        ...)
{
    char line[1024];
    va_list ap;
    pg_check_report *r = &c->report;
    if (!r->checks)
        r->checks = pg__mem_array(N_CHECKS, sizeof *r->checks);
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    char *summary = r->checks && r->n_checks < N_CHECKS ? pg__mem_strdup(line) : NULL;
    if (!summary)
        return pg__nomem(err);
    r->checks[r->n_checks++] = (pg_check){.name = name, .ok = ok, .summary = summary};
    return PG_OK;
}

pg_status pg__check_detail(pg__checking *c, pg_err *err, const char *fmt, ...)
{
    va_list ap;
    pg_check *last = &c->report.checks[c->report.n_checks - 1];
    va_start(ap, fmt);
    const pg_status st = add_line(&last->details, &last->n_details, err, fmt, ap);
    va_end(ap);
    return st;
}

pg_status pg__check_note(pg__checking *c, pg_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const pg_status st = add_line(&c->report.notes, &c->report.n_notes, err, fmt, ap);
    va_end(ap);
    return st;
}

/* ---- container ---- */

static void count_objects(const pg__h5 *h, size_t *groups, size_t *datasets)
{
    for (uint32_t i = 0; i < pg__h5_n(h); i++)
        ++*(pg__h5_at(h, i)->kind == PG_H5_GROUP ? groups : datasets);
}

static pg_status describe_container(pg__checking *c, pg_err *err)
{
    pg_store *s = c->view.r.s;
    const pg__keras_h5 *legacy = pg__keras_h5_of(s);
    const pg__v3 *paths = pg__v3_of(s);
    size_t groups = 0, datasets = 0;
    uint64_t trailing = 0;
    if (legacy) {
        count_objects(legacy->h5, &groups, &datasets);
        trailing = pg__h5_trailing(legacy->h5);
    }
    for (size_t i = 0; paths && i < paths->n_parts; i++) {
        count_objects(paths->parts[i].h5, &groups, &datasets);
        trailing += pg__h5_trailing(paths->parts[i].h5);
    }
    if (!legacy && !paths)
        return pg__check_add(c, "container", 1, err, "%s, %zu tensors, every byte accounted for",
                             pg_store_format(s), pg__store_n_tensors(s));
    char lead[64] = "HDF5 superblock";
    if (paths && paths->zip)
        (void)snprintf(lead, sizeof lead, "ZIP of %zu members, checksums right; HDF5",
                       pg__zip_n(paths->zip));
    else if (paths && paths->n_parts > 1)
        (void)snprintf(lead, sizeof lead, "%zu shards, HDF5", paths->n_parts);
    if (trailing)
        return pg__check_add(c, "container", 1, err,
                             "%s, %s groups, %s datasets, %s bytes past the end", lead,
                             PG_NUM(groups), PG_NUM(datasets), PG_NUM(trailing));
    return pg__check_add(c, "container", 1, err,
                         "%s, %s groups, %s datasets, nothing past the end of file", lead,
                         PG_NUM(groups), PG_NUM(datasets));
}

/* Turns a failure to open the file into an answer, unless it kept us from reading the file at
 * all. */
static pg_status container_failed(pg__checking *c, const pg_err *why, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__shown path = pg__show(c->path);
    const char *msg = why->msg;
    const size_t n = strlen(path.s);
    if (why->code != PG_E_FORMAT && why->code != PG_E_LIMIT && why->code != PG_E_UNKNOWN) {
        if (err)
            *err = *why;
        return why->code;
    }
    if (strncmp(msg, path.s, n) == 0 && strncmp(msg + n, ": ", 2) == 0)
        msg += n + 2;
    PG_TRY(pg__check_add(c, "container", 0, err, "%s", msg));
    for (const char *p = why->detail; *p;) {
        const size_t k = strcspn(p, "\n");
        PG_TRY(pg__check_detail(c, err, "%.*s", (int)k, p));
        p += k + (p[k] == '\n');
    }
    c->report.damaged = 1;
    c->report.action = why->action;
    c->report.hint = why->hint[0] ? pg__mem_strdup(why->hint) : NULL;
    if (why->hint[0] && !c->report.hint)
        st = pg__nomem(err);
done:
    return st;
}

/* ---- wrapper ---- */

/* Was the structure compared with a given model, and does it fit? */
static int fits_given(const pg__checking *c)
{
    for (size_t i = 0; c->given && i < c->report.n_checks; i++)
        if (strcmp(c->report.checks[i].name, "structure") == 0)
            return c->report.checks[i].ok && c->report.fitted;
    return 0;
}

static pg_status check_wrapper(pg__checking *c, pg_err *err)
{
    const pg_finding *f = &c->view.r.v.f;
    const char *name = f->template_name ? f->template_name : "?";
    const int flat = pg_store_n_layers(c->view.r.s) == 0;
    switch (f->verdict) {
    case PG_V_WRAPPER:
        if (flat && !c->view.r.v.words.prefix)
            return pg__check_add(c, "wrapper", 0, err,
                                 "%zu name%s words of wrappers (%s); load_state_dict does not "
                                 "find them",
                                 c->view.r.v.words.n_names,
                                 c->view.r.v.words.n_names == 1 ? " holds" : "s hold",
                                 PG_SHOW(name));
        if (flat)
            return pg__check_add(c, "wrapper", 0, err,
                                 "every name%s begins with \"%s\"; load_state_dict finds no key",
                                 c->view.r.v.words.counter == PG_NONE ? "" : " but n_averaged",
                                 PG_SHOW(name));
        return pg__check_add(c, "wrapper", 0, err, "%zu replicas of \"%s\"%s", f->replicas,
                             PG_SHOW(name),
                             pg__store_is_legacy(c->view.r.s)
                                 ? "; with by_name=True Keras would load nothing and say nothing"
                                 : "");
    case PG_V_AMBIGUOUS:
        if (!fits_given(c))
            return pg__check_add(c, "wrapper", 0, err, "%s", f->reason);
        break;
    case PG_V_NESTED:
        return pg__check_add(c, "wrapper", 1, err, "a nested model, not a parallel wrapper");
    default: break;
    }
    if (f->unsettled)
        return pg__check_add(c, "wrapper", 1, err,
                             "not settled: %s; a file with the names of the bare model settles it",
                             f->unsettled);
    return pg__check_add(c, "wrapper", 1, err, "not a parallel wrapper");
}

/* ---- what to do next ---- */

/* Tries what would be proposed, without writing it. */
static int unwraps_like(const pg__checking *c, int partial)
{
    const pg_unwrap_opts o = {
        .write = {.dry_run = 1, .part = c->o->part, .rules = c->o->rules, .cancel = c->o->cancel},
        .like = c->o->model,
        .like_text = c->o->model_text,
        .partial = partial};
    pg_rewrite_report rep = {0};
    const pg_status st = pg_unwrap_file(c->path, NULL, &o, &rep, NULL);
    pg_rewrite_report_fini(&rep);
    return st == PG_OK;
}

static void propose(pg__checking *c)
{
    const pg_finding *f = &c->view.r.v.f;
    int wrapped = 0;
    for (size_t i = 0; i < c->report.n_checks; i++)
        wrapped |= !c->report.checks[i].ok && strcmp(c->report.checks[i].name, "wrapper") == 0;
    if ((!wrapped && !(c->repairable && c->given)) || c->report.hint ||
        c->report.action.what != PG_DO_NOTHING)
        return;
    const int asks = f->verdict == PG_V_AMBIGUOUS || f->unsettled || !wrapped;
    pg__next_action(&c->report.action, c->view.r.s, f, asks && c->given ? c->o->model : NULL);
    if (!pg_action_get(&c->report.action, "like") || pg_action_get(&c->report.action, "split") ||
        unwraps_like(c, 0))
        return;
    if (unwraps_like(c, 1)) /* layers are missing or too many */
        pg__action_arg(&c->report.action, "partial", "true");
    else
        c->report.action = (pg_action){0};
}

/* ---- all ---- */

static pg_status run(pg__checking *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg_err why = {0};
    const int all = !c->o->only_finite && !c->o->only_no_wrapper;
    const pg_open_opts how = {.part = c->o->part, .rules = c->o->rules};
    st = pg__view_open(&c->view, c->path, &how, &why);
    if (st == PG_E_FORMAT) {
        int is_split = 0;
        st = pg__check_faults(c, &is_split, err);
        if (st != PG_OK || is_split)
            return st;
        st = PG_E_FORMAT;
    }
    if (st != PG_OK)
        return container_failed(c, &why, err);
    PG_TRY(describe_container(c, err));
    if (all || c->given)
        PG_TRY(pg__check_structure(c, err));
    if (all || c->o->only_no_wrapper)
        PG_TRY(check_wrapper(c, err));
    if (all || c->o->only_finite)
        PG_TRY(pg__check_values(c, err));
    if (all)
        PG_TRY(pg__check_shards(c, err));
    if (c->o->sha256)
        PG_TRY(pg__check_sum(c, err));
    if (c->o->input || c->o->device)
        PG_TRY(pg__check_predictions(c, err));
    PG_TRY(pg_store_check_same(c->view.r.s, err));
    propose(c);
done:
    return st;
}

pg_status pg_check_file(pg_check_report *out, const char *path, const pg_check_opts *opts,
                        pg_err *err)
{
    static const pg_check_opts defaults = {0};
    pg_status st = PG_OK;
    pg__checking c = {.path = path, .o = opts ? opts : &defaults};
    if (!out || !path)
        return pg_fail(err, PG_E_ARG, "a file and a report are needed");
    if (!c.o->input != !c.o->expect)
        return pg_fail(err, PG_E_ARG, "predictions need an input and what is expected of it");
    if (c.o->model || c.o->model_text)
        PG_TRY(pg__graph_given(&c.given, c.o->model, c.o->model_text, err));
    PG_TRY(run(&c, err));
    c.report.ok = 1;
    for (size_t i = 0; i < c.report.n_checks; i++)
        c.report.ok &= c.report.checks[i].ok;
    *out = c.report;
    c.report = (pg_check_report){0};
done:
    pg_check_report_fini(&c.report);
    pg__graph_free(c.given);
    pg__view_fini(&c.view);
    return st;
}
