/* compare.c - pg_compare_files(): views two files as their one-device models, pairs tensors by name
 * or position, and compares the values of each pair. No tensor is held in memory: see
 * compare_values.c. */
#include "pg/compare.h"

#include <fnmatch.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "store/store_impl.h"
#include "wrap/compare/compare_doubt.h"

typedef struct compare {
    const char *path_a, *path_b;
    pg__view a, b;
    size_t *of_a, *of_b;
    unsigned char *equal; /* by tensor of a: it equals its partner, or is not compared */
    unsigned char *buf;
    int in_doubt; /* two layouts, and no description pairs them */
    const pg_compare_opts *o;
    pg_comparison out;
    size_t cap;
} compare;

void pg_comparison_fini(pg_comparison *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_rows; i++) {
        pg__mem_free(c->rows[i].name);
        pg__mem_free((void *)(uintptr_t)c->rows[i].a.name);
        pg__mem_free((void *)(uintptr_t)c->rows[i].b.name);
    }
    pg__mem_free(c->rows);
    *c = (pg_comparison){0};
}

/* Copies the weight of a row, with its name: stores are closed before rows are read. */
static pg_status copy_weight(pg_weight *out, const pg_weight *w, pg_err *err)
{
    *out = *w;
    out->layer = PG_NONE;
    out->name = pg__mem_strdup(w->name);
    return out->name ? PG_OK : pg__nomem(err);
}

/* A new row for tensor i of a and tensor k of b; either may be PG_NONE. */
static pg_status add_row(compare *c, size_t i, size_t k, pg_err *err)
{
    pg_status st = PG_OK;
    const char *label = i == PG_NONE ? c->b.v[k].label : c->a.v[i].label;
    if (pg__mem_grow(&c->out.rows, &c->cap, c->out.n_rows + 1, sizeof *c->out.rows))
        return pg__nomem(err);
    pg_compare_row *row = &c->out.rows[c->out.n_rows++];
    *row = (pg_compare_row){.kind = i == PG_NONE ? PG_ROW_ONLY_B : PG_ROW_ONLY_A};
    /* numbers of the path layout are weaker evidence than names */
    if (i != PG_NONE && k != PG_NONE && !c->a.v[i].var && c->b.v[k].var)
        label = c->b.v[k].label;
    row->name = pg__mem_strdup(label);
    if (!row->name)
        return pg__nomem(err);
    if (i != PG_NONE)
        PG_TRY(copy_weight(&row->a, pg__view_weight(&c->a, i), err));
    if (k != PG_NONE)
        PG_TRY(copy_weight(&row->b, pg__view_weight(&c->b, k), err));
    const pg_weight *w = i == PG_NONE ? &row->b : &row->a;
    row->n = w->n_bytes / pg_dtype_bytes(w->dtype);
done:
    return st;
}

static pg_status compare_pair(compare *c, size_t i, size_t k, pg_err *err)
{
    pg_status st = add_row(c, i, k, err);
    if (st != PG_OK)
        return st;
    pg_compare_row *row = &c->out.rows[c->out.n_rows - 1];
    if (!pg__same_shape(&row->a, &row->b)) {
        row->kind = PG_ROW_SHAPE;
        row->n_changed = row->n;
        return PG_OK;
    }
    const pg__operand a = {c->a.r.s, c->a.v[i].src, c->path_a};
    const pg__operand b = {c->b.r.s, c->b.v[k].src, c->path_b};
    return pg__compare_values(row, a, b, c->o, c->buf, err);
}

static int is_ignored(const compare *c, const char *label)
{
    return c->o->ignore && fnmatch(c->o->ignore, label, 0) == 0;
}

static void count(compare *c)
{
    pg_comparison *out = &c->out;
    for (size_t i = 0; i < out->n_rows; i++) {
        const pg_compare_row *row = &out->rows[i];
        out->n_params += row->n;
        out->n_equal += row->kind == PG_ROW_EQUAL;
        out->n_only_a += row->kind == PG_ROW_ONLY_A;
        out->n_only_b += row->kind == PG_ROW_ONLY_B;
    }
    out->n_differ = out->n_rows - out->n_equal - out->n_only_a - out->n_only_b;
}

static int found_difference(const compare *c)
{
    return c->o->quick && c->out.n_rows && c->out.rows[c->out.n_rows - 1].kind != PG_ROW_EQUAL;
}

static pg_status compare_all(compare *c, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < c->a.n && !found_difference(c); i++) {
        c->equal[i] = 1;
        if (is_ignored(c, c->a.v[i].label))
            continue;
        if (c->of_a[i] == PG_NONE)
            PG_TRY(add_row(c, i, PG_NONE, err));
        else if (!is_ignored(c, c->b.v[c->of_a[i]].label))
            PG_TRY(compare_pair(c, i, c->of_a[i], err));
        else
            continue;
        c->equal[i] = c->out.rows[c->out.n_rows - 1].kind == PG_ROW_EQUAL;
    }
    for (size_t k = 0; k < c->b.n && !found_difference(c); k++)
        if (c->of_b[k] == PG_NONE && !is_ignored(c, c->b.v[k].label))
            PG_TRY(add_row(c, PG_NONE, k, err));
    count(c);
done:
    return st;
}

/* A difference that may only be one of names is not reported. */
static pg_status doubt(const compare *c, pg_err *err)
{
    const pg__doubt d = {.a = &c->a,
                         .b = &c->b,
                         .path_a = c->path_a,
                         .path_b = c->path_b,
                         .of_a = c->of_a,
                         .of_b = c->of_b,
                         .equal = c->equal,
                         .buf = c->buf};
    return c->in_doubt && c->out.n_differ && !c->o->quick ? pg__doubt_pairs(&d, err) : PG_OK;
}

static void pair_by_order(compare *c)
{
    for (size_t i = 0; i < c->a.n; i++)
        c->of_a[i] = i < c->b.n ? i : PG_NONE;
    for (size_t k = 0; k < c->b.n; k++)
        c->of_b[k] = k < c->a.n ? k : PG_NONE;
}

/* No names in common: would pairing by position work? */
static pg_status share_nothing(const compare *c, pg_err *err)
{
    const size_t least = c->a.n < c->b.n ? c->a.n : c->b.n;
    const size_t most = c->a.n < c->b.n ? c->b.n : c->a.n;
    size_t n = 0;
    for (size_t i = 0; i < least; i++)
        n += pg__same_shape(pg__view_weight(&c->a, i), pg__view_weight(&c->b, i)) != 0;
    const pg_status st = pg_fail(
        err, PG_E_MISMATCH, "%s and %s share no tensor names; %zu of %zu shapes match in order",
        PG_SHOW(c->path_a), PG_SHOW(c->path_b), n, most);
    if (n) {
        pg_err_do(err, PG_DO_COMPARE_BY_ORDER, c->path_a);
        pg_err_arg(err, "other", "%s", c->path_b);
    }
    return st;
}

static pg_status pair(compare *c, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    int by_model = 0;
    c->of_a = pg__mem_array(c->a.n, sizeof *c->of_a);
    c->of_b = pg__mem_array(c->b.n, sizeof *c->of_b);
    c->equal = pg__mem_array(c->a.n, 1);
    if (!c->of_a || !c->of_b || !c->equal)
        return pg__nomem(err);
    if (c->o->by_order) {
        pair_by_order(c);
        return PG_OK;
    }
    c->in_doubt = pg__store_has_paths(c->a.r.s) != pg__store_has_paths(c->b.r.s);
    if (c->in_doubt)
        PG_TRY(pg__view_pair_by_model(&by_model, c->of_a, c->of_b, &c->a, &c->b, err));
    if (!by_model)
        PG_TRY(pg__view_pair(c->of_a, c->of_b, &c->a, &c->b, err));
    for (size_t i = 0; i < c->a.n; i++)
        n += c->of_a[i] != PG_NONE;
    if (n < c->a.n || n < c->b.n) { /* attention has different names in Keras 2 and 3 */
        PG_TRY(pg__view_pair_by_model(&by_model, c->of_a, c->of_b, &c->a, &c->b, err));
    }
    if (n == 0 && !by_model)
        st = share_nothing(c, err);
    c->in_doubt &= !by_model;
done:
    return st;
}

/* "Equal" must mean that something was compared. */
static pg_status require_tensors(const pg__view *v, const char *path, pg_err *err)
{
    return v->n ? PG_OK
                : pg_fail(err, PG_E_FORMAT, "%s: holds no tensors, there is nothing to compare",
                          PG_SHOW(path));
}

enum { RULES = 1, PART = 2 };

/* Opens a file without what its format does not know, if that may be dropped. */
static pg_status open_one(pg__view *v, const char *path, const pg_open_opts *how, unsigned may_drop,
                          unsigned *dropped, pg_err *err)
{
    const unsigned given = (how->rules ? RULES : 0u) | (how->part ? PART : 0u);
    pg_status st = pg__view_open(v, path, how, err);
    for (unsigned drop = RULES; st == PG_E_UNSUPPORTED && drop <= (RULES | PART); drop++) {
        pg_open_opts less = *how;
        if (drop & ~(given & may_drop))
            continue;
        less.rules = drop & RULES ? NULL : how->rules;
        less.part = drop & PART ? NULL : how->part;
        pg__view_fini(v);
        st = pg__view_open(v, path, &less, err);
        *dropped = drop;
    }
    return st;
}

/* A part, or rules, may apply to one of the files only: the other one's format may have none. Two
 * parts are of two files. */
static pg_status open_both(compare *c, pg_err *err)
{
    const pg_open_opts of_a = {.part = c->o->part, .rules = c->o->rules};
    const pg_open_opts of_b = {.part = c->o->part_b ? c->o->part_b : c->o->part,
                               .rules = c->o->rules};
    unsigned of_neither = 0, may_drop = c->o->part_b ? RULES : RULES | PART;
    pg_status st = open_one(&c->a, c->path_a, &of_a, may_drop, &of_neither, err);
    if (st != PG_OK)
        return st;
    may_drop &= ~of_neither;
    return open_one(&c->b, c->path_b, &of_b, may_drop, &of_neither, err);
}

/* The order of a wrapper's weights that its own file leaves open: the other file may settle it. */
static pg_status settle_by(pg__view *v, const char *path, const pg__view *other,
                           const char *other_path, pg_err *err)
{
    static const pg_open_opts whole = {0};
    if (!v->unwrapped || v->planned || !other->r.v.graph)
        return PG_OK;
    pg__view_fini(v);
    v->like = other_path;
    return pg__view_open(v, path, &whole, err);
}

/* Of A in the pairs. */
static uint64_t n_bytes_of(const compare *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->a.n; i++)
        n += c->of_a[i] != PG_NONE ? pg__view_weight(&c->a, i)->n_bytes : 0;
    return n;
}

pg_status pg_compare_files(pg_comparison *out, const char *a, const char *b,
                           const pg_compare_opts *opts, pg_err *err)
{
    static const pg_compare_opts defaults = {0};
    pg_status st = PG_OK;
    compare c = {.path_a = a, .path_b = b, .o = opts ? opts : &defaults};
    if (!out || !a || !b || !(c.o->abs >= 0) || !(c.o->rel >= 0))
        return pg_fail(err, PG_E_ARG, "two files, and tolerances from 0, are needed");
    c.buf = pg__mem_array(2, PG_COPY_BYTES);
    if (!c.buf)
        return pg__nomem(err);
    PG_TRY(open_both(&c, err));
    PG_TRY(settle_by(&c.a, a, &c.b, b, err));
    PG_TRY(settle_by(&c.b, b, &c.a, a, err));
    PG_TRY(require_tensors(&c.a, a, err));
    PG_TRY(require_tensors(&c.b, b, err));
    PG_TRY(pair(&c, err));
    pg__progress_start(c.o->progress, n_bytes_of(&c));
    PG_TRY(compare_all(&c, err));
    PG_TRY(doubt(&c, err));
    PG_TRY(pg_store_check_same(c.a.r.s, err));
    PG_TRY(pg_store_check_same(c.b.r.s, err));
    c.out.through_wrapper = c.a.unwrapped || c.b.unwrapped;
    *out = c.out;
    c.out = (pg_comparison){0};
done:
    pg_comparison_fini(&c.out);
    pg__mem_free(c.of_a);
    pg__mem_free(c.of_b);
    pg__mem_free(c.equal);
    pg__mem_free(c.buf);
    pg__view_fini(&c.a);
    pg__view_fini(&c.b);
    return st;
}
