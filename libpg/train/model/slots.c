/* slots.c - the order of the optimizer's state in a file.
 *
 *             to 2.2         2.3            tf.keras to 2.10   2.11 - 2.15        Keras 3
 *   first     steps          steps          steps              steps              steps, rate
 *   SGD       n              n              n if momentum      n, always          n if momentum
 *   RMSprop   n, no steps    n              n, momenta, means of the gradients
 *   Adagrad   n, no steps    n              n                  n                  n
 *   Adadelta  n n, no steps  n n            n n                by parameter       by parameter
 *   Adam      n n (a)        n n (a)        n n (b)            by parameter (c)   by parameter (c)
 *   Adamax    n n            n n            n n                by parameter       by parameter
 *   Nadam     n n            product, n n   product, n n       by parameter       product first
 *   Lion                                                       n                  n
 *   Ftrl                                    by parameter       by parameter       by parameter
 *   use_ema                                                    n averages after the first
 *
 * (a) from 2.1 on also n of one element, whole ones with amsgrad; (b) a third n only with amsgrad;
 * (c) m and v of each, then all maxima with amsgrad.
 *
 * n: one array per trained variable, in the order of trainable_weights. Seen in files of 2.0.9,
 * 2.2.4, 2.3.1, TF 1.14 to 2.3, Keras 2.15 and 3.6. */
#include "train/model/slots.h"

#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "store/values.h"

static int is(const pg_trainer *t, const char *name)
{
    return strcmp(t->compiled.optimizer.name, name) == 0;
}

pg__era pg__era_of(const pg_trainer *t)
{
    if (t->net.rules->keras3)
        return PG_ERA_THREE;
    if (!t->compiled.optimizer.legacy)
        return PG_ERA_NEW;
    if (!t->net.rules->clip_all_together) /* not in standalone Keras */
        return PG_ERA_OLD;
    return t->net.rules->bce_adds_epsilon ? PG_ERA_2_3 : PG_ERA_2_2;
}

static pg_status add(pg__state_list *l, pg__state_kind kind, size_t slot, size_t param, pg_err *err)
{
    if (pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v))
        return pg__nomem(err);
    l->v[l->n++] = (pg__state_entry){kind, slot, param};
    return PG_OK;
}

void pg__state_list_fini(pg__state_list *l)
{
    pg__mem_free(l->v);
    *l = (pg__state_list){0};
}

/* One entry for every trained parameter. */
static pg_status add_all(pg__state_list *l, const pg_trainer *t, pg__state_kind kind, size_t slot,
                         pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->vars.n_params; i++)
        if (t->vars.trained[t->vars.order[i]])
            PG_TRY(add(l, kind, slot, t->vars.order[i], err));
done:
    return st;
}

static pg_status add_pairs(pg__state_list *l, const pg_trainer *t, pg_err *err)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < t->vars.n_params; i++)
        for (size_t slot = 0; slot < 2 && t->vars.trained[t->vars.order[i]]; slot++)
            PG_TRY(add(l, PG_STATE_SLOT, slot, t->vars.order[i], err));
done:
    return st;
}

static pg_status add_first(pg__state_list *l, const pg_trainer *t, pg__era era, int rate,
                           pg_err *err)
{
    const int uncounted =
        era == PG_ERA_2_2 && (is(t, "RMSprop") || is(t, "Adagrad") || is(t, "Adadelta"));
    pg_status st = PG_OK;
    if (!uncounted)
        PG_TRY(add(l, PG_STATE_STEPS, 0, 0, err));
    if (era == PG_ERA_THREE && rate)
        PG_TRY(add(l, PG_STATE_RATE, 0, 0, err));
done:
    return st;
}

pg_status pg__state_list_of(pg__state_list *out, const pg_trainer *t, pg__era era, int as_written,
                            pg_err *err)
{
    const pg__optimizer *o = &t->compiled.optimizer;
    const size_t n_slots = pg__optimizer_of(pg__optimizer_kind_of(o))->n_slots;
    const int later = era == PG_ERA_NEW || era == PG_ERA_THREE;
    const int by_param = is(t, "Ftrl") || (later && !is(t, "RMSprop") && n_slots >= 2);
    const int zeros = (strcmp(t->net.rules->name, "2.0") != 0) == as_written;
    pg_status st = PG_OK;
    PG_TRY(add_first(out, t, era, (o->schedule == NULL) == as_written, err));
    if (o->use_ema)
        PG_TRY(add_all(out, t, PG_STATE_SLOT, PG_SLOT_AVERAGE, err));
    if (is(t, "Nadam") && era != PG_ERA_2_2 && era != PG_ERA_NEW)
        PG_TRY(add(out, PG_STATE_PRODUCT, 0, 0, err));
    if (is(t, "SGD") && n_slots == 0) { /* stored but never used */
        if (era != PG_ERA_OLD && era != PG_ERA_THREE)
            PG_TRY(add_all(out, t, PG_STATE_ZEROS, 0, err));
        goto done;
    }
    if (by_param)
        PG_TRY(add_pairs(out, t, err));
    for (size_t slot = by_param ? 2 : 0; slot < n_slots; slot++)
        if (pg__optimizer_uses_slot(o, slot))
            PG_TRY(add_all(out, t, PG_STATE_SLOT, slot, err));
    if (zeros && is(t, "Adam") && !o->amsgrad && era <= PG_ERA_2_3)
        PG_TRY(add_all(out, t, PG_STATE_ZERO, 2, err));
done:
    return st;
}

/* ---- names ---- */

static const char *slot_word(const pg_trainer *t, pg__era era, size_t slot)
{
    static const char *const words[][4] = {{"SGD", "momentum", "", ""},
                                           {"RMSprop", "rms", "momentum", "mg"},
                                           {"Adam", "m", "v", "vhat"},
                                           {"AdamW", "m", "v", "vhat"},
                                           {"Adagrad", "accumulator", "", ""},
                                           {"Adadelta", "accum_grad", "accum_var", ""},
                                           {"Adamax", "m", "v", ""},
                                           {"Nadam", "m", "v", ""},
                                           {"Lion", "m", "", ""},
                                           {"Ftrl", "accumulator", "linear", ""}};
    static const char *const three[] = {"momentum", "velocity", "max_velocity"};
    const int moments = is(t, "Adam") || is(t, "AdamW") || is(t, "Adamax") || is(t, "Nadam");
    if (slot == PG_SLOT_AVERAGE)
        return "average";
    if (era == PG_ERA_THREE && is(t, "Lion"))
        return "momentum";
    if (era == PG_ERA_THREE && moments)
        return three[slot];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is(t, words[i][0]))
            return words[i][1 + slot];
    return "slot";
}

static pg_status scalar_name(pg__str *out, const pg_trainer *t, pg__era era, pg__state_kind kind,
                             pg_err *err)
{
    const char *name = t->compiled.optimizer.name;
    if (kind == PG_STATE_RATE)
        return pg__str_printf(out, err, "%s/learning_rate", name);
    if (kind == PG_STATE_PRODUCT)
        return pg__str_printf(out, err, era == PG_ERA_THREE ? "%s/product" : "%s/product:0", name);
    if (era == PG_ERA_NEW)
        return pg__str_puts(out, "iteration:0", err);
    return pg__str_printf(out, err, era == PG_ERA_THREE ? "%s/iteration" : "%s/iter:0", name);
}

pg_status pg__state_name(pg__str *out, const pg_trainer *t, pg__era era, const pg__state_entry *e,
                         pg_err *err)
{
    const char *name = t->compiled.optimizer.name, *weight = "", *word = slot_word(t, era, e->slot);
    if (e->kind < PG_STATE_SLOT)
        return scalar_name(out, t, era, e->kind, err);
    for (size_t i = 0; i < t->vars.n_params; i++)
        if (t->vars.order[i] == e->param)
            weight = t->vars.weights[i].name;
    if (era == PG_ERA_NEW)
        return pg__str_printf(out, err, "%s/%s/%s:0", name, word, weight);
    if (era == PG_ERA_THREE)
        return pg__str_printf(out, err, "%s/%s_%s", name, weight, word);
    return pg__str_printf(out, err, "%s/%s/%s:0", name, weight, word);
}

/* ---- reading ---- */

/* In a .keras, a LossScaleOptimizer's state has that of the inner optimizer twice; in Keras 3's
 * legacy .h5 it has four numbers of its own. */
static int is_inner(const pg_weight *w)
{
    return strstr(w->name, "inner_optimizer/") != NULL;
}
static int is_of_scale(const pg_weight *w)
{
    return strncmp(w->name, "loss_scale_optimizer/", 21) == 0 && w->rank == 0;
}

/* The optimizer's tensors: the path layout also stores metrics. */
static size_t list_stored(size_t *at, const pg_store *file)
{
    size_t n = 0;
    int has_inner = 0;
    for (size_t i = 0; i < pg_store_n_state(file); i++)
        has_inner |= is_inner(pg_store_state(file, i));
    for (size_t i = 0; i < pg_store_n_state(file); i++) {
        const pg_weight *w = pg_store_state(file, i);
        if (strncmp(w->name, "metrics/", 8) != 0 && !is_of_scale(w) && is_inner(w) == has_inner)
            at[n++] = i;
    }
    return n;
}

static int entry_fits(const pg_trainer *t, const pg__state_entry *e, const pg_weight *w)
{
    const pg__dims have = pg__dims_of(w->rank, w->dims);
    if (e->kind == PG_STATE_ZERO)
        return pg__dims_elems(&have) == 1;
    if (e->kind < PG_STATE_SLOT)
        return w->rank == 0;
    return pg__dims_equal(&have, &t->net.built_params.params[e->param].shape);
}

static int list_fits(const pg_trainer *t, const pg__state_list *l, const pg_store *file,
                     const size_t *at, size_t n)
{
    if (l->n != n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!entry_fits(t, &l->v[i], pg_store_state(file, at[i])))
            return 0;
    return 1;
}

pg_status pg__state_number(double *out, pg_store *file, size_t i, pg_err *err)
{
    const pg_weight *w = pg_store_state(file, i);
    unsigned char raw[8];
    const pg_status st = pg_store_read_state(file, i, 0, raw, pg_dtype_bytes(w->dtype), err);
    if (st == PG_OK)
        pg__values(out, raw, 1, w->dtype);
    return st;
}

static pg_status read_entry(pg_trainer *t, const pg__state_entry *e, pg_store *file, size_t i,
                            pg_err *err)
{
    double v = 0;
    pg_status st = PG_OK;
    if (e->kind == PG_STATE_SLOT)
        return pg__param_read(t, &t->vars.slots[e->slot], e->param, file, i, 1, err);
    if (e->kind > PG_STATE_SLOT)
        return PG_OK;
    PG_TRY(pg__state_number(&v, file, i, err));
    if (e->kind == PG_STATE_RATE) {
        t->compiled.optimizer.lr = v;
    } else if (e->kind == PG_STATE_PRODUCT) {
        t->compiled.optimizer.nadam_product = v;
    } else if (v >= 0 && v < 9e15) {
        t->compiled.optimizer.iterations = (uint64_t)v;
    } else {
        PG_FAIL(PG_E_FORMAT, "%s: %g is not a number of updates",
                PG_SHOW(pg_store_state(file, i)->name), v);
    }
done:
    return st;
}

/* Finds the list that matches the file's tensors, if it is of the trainer's era: as Keras writes
 * it, or with the arrays that it does not use. */
static pg_status find_list(pg__state_list *out, int *found, const pg_trainer *t,
                           const pg_store *file, const size_t *at, size_t n, pg_err *err)
{
    const pg__era own = pg__era_of(t);
    pg_status st = PG_OK;
    *found = 0;
    if (t->net.graph->dialect == 1) /* Keras 1 sorts it by name */
        return PG_OK;
    for (int as_written = 1; !*found && as_written >= 0; as_written--) {
        pg__state_list_fini(out);
        PG_TRY(pg__state_list_of(out, t, own, as_written, err));
        *found = list_fits(t, out, file, at, n);
    }
done:
    return st;
}

pg_status pg__state_walk(int *found, size_t *n, const pg_trainer *t, pg_store *file,
                         pg__state_visit visit, void *ctx, pg_err *err)
{
    size_t *at = pg__mem_array(pg_store_n_state(file), sizeof *at);
    pg__state_list l = {0};
    pg_status st = PG_OK;
    *found = 0;
    if (!at)
        return pg__nomem(err);
    *n = list_stored(at, file);
    if (*n > 0)
        PG_TRY(find_list(&l, found, t, file, at, *n, err));
    for (size_t i = 0; *found && i < l.n; i++)
        PG_TRY(visit(ctx, &l.v[i], file, at[i], err));
done:
    pg__state_list_fini(&l);
    pg__mem_free(at);
    return st;
}

typedef struct taking {
    pg_trainer *t;
    int has_product;
} taking;

static pg_status take_entry(void *ctx, const pg__state_entry *e, pg_store *file, size_t i,
                            pg_err *err)
{
    taking *k = ctx;
    k->has_product |= e->kind == PG_STATE_PRODUCT;
    return read_entry(k->t, e, file, i, err);
}

/* Keras saves an unused optimizer as just its counter, Keras 3 with the learning rate: there is
 * nothing to take or report. */
static pg_status is_unused(int *out, pg_store *file, pg_err *err)
{
    size_t *at = pg__mem_array(pg_store_n_state(file), sizeof *at);
    double steps = 1;
    pg_status st = PG_OK;
    *out = 0;
    if (!at)
        return pg__nomem(err);
    const size_t n = list_stored(at, file);
    for (size_t i = 0; i < n; i++)
        if (pg_store_state(file, at[i])->rank > 0)
            goto done;
    if (n > 0)
        PG_TRY(pg__state_number(&steps, file, at[0], err));
    *out = steps == 0;
done:
    pg__mem_free(at);
    return st;
}

pg_status pg__state_take(pg_trainer *t, pg_store *file, const char *name, pg_err *err)
{
    taking k = {.t = t};
    pg_status st = PG_OK;
    size_t n = 0;
    int taken = 0, unused = 0;
    PG_TRY(is_unused(&unused, file, err));
    if (unused)
        goto done;
    PG_TRY(pg__state_walk(&taken, &n, t, file, take_entry, &k, err));
    if (taken && !k.has_product)
        pg__optimizer_recount(&t->compiled.optimizer);
    if (taken)
        PG_TRY(pg__strs_printf(&t->report.notes, err, "%s: continues after %s update%s of %s",
                               PG_SHOW(name), PG_NUM(t->compiled.optimizer.iterations),
                               t->compiled.optimizer.iterations == 1 ? "" : "s",
                               t->compiled.optimizer.name));
    else if (n > 0)
        PG_TRY(
            pg__strs_printf(&t->report.notes, err,
                            "%s: optimizer state (%zu tensors) is not that of %s: it starts anew",
                            PG_SHOW(name), n, t->compiled.optimizer.name));
done:
    return st;
}
