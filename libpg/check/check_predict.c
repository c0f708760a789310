/* check_predict.c - checks the predictions of a strictly loaded file. The model is opened as for
 * training, on one device, with the file's weights and nothing else, and its outputs for the given
 * rows are compared with the given values as they arrive. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "check/check_impl.h"
#include "pg/predict.h"
#include "store/values.h"

#define DEFAULT_TOLERANCE 1e-4
#define MADE_UP_ROWS      2
#define PIECE             4096 /* elements compared at a time */

typedef struct comparison {
    const char *path; /* of the expected values */
    pg_store *want;
    size_t *of_output; /* its tensor for each output */
    size_t n_outputs;
    const pg_weight *outputs; /* valid while predictions come */
    double tolerance;
    uint64_t n, n_off;  /* number of elements; those that differ too much */
    double largest;     /* difference */
    double got, wanted; /* at the worst place */
    size_t output;
    uint64_t at; /* element of it */
} comparison;

static size_t find_tensor(const pg_store *s, const char *name)
{
    for (size_t i = 0; i < pg_store_n_weights(s); i++)
        if (strcmp(pg_store_weight(s, i)->name, name) == 0)
            return i;
    return PG_NONE;
}

/* Finds an array by the output's name, as y0, y1, ..., as numpy's arr_0, ..., or as the only
 * one. */
static size_t tensor_of(const comparison *c, size_t k, const char *output)
{
    static const char *const stems[] = {"y", "arr_"};
    size_t i = find_tensor(c->want, output);
    char name[32];
    for (size_t m = 0; i == PG_NONE && m < sizeof stems / sizeof *stems; m++) {
        (void)snprintf(name, sizeof name, "%s%zu", stems[m], k);
        i = find_tensor(c->want, name);
    }
    if (i == PG_NONE && c->n_outputs == 1 && pg_store_n_weights(c->want) == 1)
        i = 0;
    return i;
}

static pg_status begin(void *user, const pg_weight *outputs, size_t n_outputs, pg_err *err)
{
    comparison *c = user;
    c->n_outputs = n_outputs;
    c->outputs = outputs;
    c->of_output = pg__mem_array(n_outputs, sizeof *c->of_output);
    if (!c->of_output)
        return pg__nomem(err);
    for (size_t k = 0; k < n_outputs; k++) {
        const pg_weight *have = &outputs[k];
        const size_t i = c->of_output[k] = tensor_of(c, k, have->name);
        const pg_weight *want = i == PG_NONE ? NULL : pg_store_weight(c->want, i);
        if (!want)
            return pg_fail(err, PG_E_ARG, "%s: no array for output %zu (y%zu, or %s)",
                           PG_SHOW(c->path), k, k, PG_SHOW(have->name));
        const uint64_t n = want->n_bytes / pg_dtype_bytes(want->dtype);
        if (n != have->n_bytes / pg_dtype_bytes(have->dtype))
            return pg_fail(err, PG_E_ARG,
                           "%s: %s holds %s values, the model gives %s for these rows",
                           PG_SHOW(c->path), PG_SHOW(want->name), PG_NUM(n),
                           PG_NUM(have->n_bytes / pg_dtype_bytes(have->dtype)));
    }
    return PG_OK;
}

static void compare(comparison *c, size_t output, uint64_t at, double got, double wanted)
{
    const double off = fabs(got - wanted);
    const int same = (isnan(got) && isnan(wanted)) || got == wanted;
    c->n++;
    if (same)
        return;
    c->n_off += !(off <= c->tolerance * fmax(1, fabs(wanted)));
    if (!(off <= c->largest) && !isnan(c->largest)) { /* NaN is worse than anything */
        c->largest = off;
        c->got = got;
        c->wanted = wanted;
        c->output = output;
        c->at = at;
    }
}

static pg_status rows(void *user, size_t output, uint64_t first, size_t n_rows, const void *values,
                      pg_err *err)
{
    comparison *c = user;
    const pg_weight *have = &c->outputs[output];
    const pg_weight *want = pg_store_weight(c->want, c->of_output[output]);
    const size_t bytes = pg_dtype_bytes(want->dtype), own = pg_dtype_bytes(have->dtype);
    const uint64_t row = have->dims[0] ? have->n_bytes / own / have->dims[0] : 0;
    unsigned char raw[PIECE * 8];
    double got[PIECE], wanted[PIECE];
    pg_status st = PG_OK;
    for (uint64_t at = 0, n; at < n_rows * row; at += n) {
        n = n_rows * row - at < PIECE ? n_rows * row - at : PIECE;
        PG_TRY(pg_store_read(c->want, c->of_output[output], (first * row + at) * bytes, raw,
                             (size_t)n * bytes, err));
        pg__values(wanted, raw, (size_t)n, want->dtype);
        pg__values(got, (const unsigned char *)values + at * own, (size_t)n, have->dtype);
        for (size_t i = 0; i < n; i++)
            compare(c, output, first * row + at + i, got[i], wanted[i]);
    }
done:
    return st;
}

/* "[3,2]": position of element `at` of an output. */
static void place_of(char *out, size_t cap, const pg_weight *w, uint64_t at)
{
    uint64_t index[PG_MAX_RANK] = {0};
    size_t n = 0;
    for (uint32_t k = w->rank; k-- > 0;) {
        index[k] = w->dims[k] ? at % w->dims[k] : 0;
        at = w->dims[k] ? at / w->dims[k] : 0;
    }
    for (uint32_t k = 0; k < w->rank && n < cap; k++)
        n += (size_t)snprintf(out + n, cap - n, "%s%llu", k ? "," : "[",
                              (unsigned long long)index[k]);
    if (n < cap)
        (void)snprintf(out + n, cap - n, "]");
}

static pg_status report_values(pg__checking *c, const comparison *found, const char *place,
                               pg_err *err)
{
    pg_status st = PG_OK;
    if (found->n_off == 0)
        return pg__check_add(c, "predicted", 1, err,
                             "%s values as expected, largest difference %.1e (tolerance %.0e)",
                             PG_NUM(found->n), found->largest, found->tolerance);
    PG_TRY(pg__check_add(c, "predicted", 0, err,
                         "%s of %s values differ by more than the tolerance of %.0e",
                         PG_NUM(found->n_off), PG_NUM(found->n), found->tolerance));
    PG_TRY(pg__check_detail(c, err, "largest difference %.3g, at %s: %.9g, expected %.9g",
                            found->largest, place, found->got, found->wanted));
done:
    return st;
}

/* Opens the model with the file's weights; if they do not fit, the check fails. */
static pg_status open_strictly(pg_trainer **out, pg__checking *c, pg_err *err)
{
    const pg_train_opts opts = {.model = c->given ? c->o->model : c->path,
                                .model_text = c->o->model_text,
                                .weights = c->given ? c->path : NULL,
                                .for_prediction = 1,
                                .devices = c->o->device};
    pg_err why = {0};
    pg_status st = PG_OK;
    if (c->view.r.v.f.verdict == PG_V_WRAPPER)
        return pg__check_add(c, "predicted", 0, err,
                             "nothing: a wrapper's file does not load as it is");
    if (!c->given && !pg_store_text(c->view.r.s, PG_TEXT_MODEL_CONFIG, NULL)) {
        (void)pg_fail(err, PG_E_ARG, "%s: has no model description; predicting needs one",
                      PG_SHOW(c->path));
        pg_err_do(err, PG_DO_GIVE_MODEL, c->path);
        if (c->o->input) {
            pg_err_arg(err, "input", "%s", c->o->input);
            pg_err_arg(err, "expect", "%s", c->o->expect);
        } else {
            pg_err_arg(err, "device", "%s", c->o->device);
        }
        return PG_E_ARG;
    }
    st = pg_trainer_open(out, &opts, &why);
    if (st == PG_E_MISMATCH)
        return pg__check_add(c, "predicted", 0, err, "nothing: %s", why.msg);
    if (st != PG_OK && err)
        *err = why;
    return st;
}

/* ---- nothing to compare with ---- */

typedef struct made_up {
    const pg_weight *outputs;
    uint64_t n, n_off;
} made_up;

static pg_status begin_made_up(void *user, const pg_weight *outputs, size_t n_outputs, pg_err *err)
{
    made_up *m = user;
    (void)n_outputs, (void)err;
    m->outputs = outputs;
    return PG_OK;
}

static pg_status count_finite(void *user, size_t output, uint64_t first, size_t n_rows,
                              const void *values, pg_err *err)
{
    made_up *m = user;
    const pg_weight *w = &m->outputs[output];
    const size_t bytes = pg_dtype_bytes(w->dtype);
    const uint64_t n = w->dims[0] ? w->n_bytes / bytes / w->dims[0] * n_rows : 0;
    (void)first, (void)err;
    for (uint64_t i = 0; i < n; i++) {
        double v;
        pg__values(&v, (const unsigned char *)values + i * bytes, 1, w->dtype);
        m->n_off += isfinite(v) ? 0 : 1;
    }
    m->n += n;
    return PG_OK;
}

static pg_status predict_made_up(pg__checking *c, pg_trainer *t, pg_err *err)
{
    made_up m = {0};
    const pg_predictions to = {.user = &m, .begin = begin_made_up, .rows = count_finite};
    const pg_predict_opts opts = {.cancel = c->o->cancel};
    pg_data *data = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg_data_random(&data, MADE_UP_ROWS, 0, err));
    PG_TRY(pg_predict(t, data, &opts, &to, err));
    if (m.n_off)
        PG_TRY(pg__check_add(c, "predicted", 0, err, "%s of %s values for made-up rows not finite",
                             PG_NUM(m.n_off), PG_NUM(m.n)));
    else
        PG_TRY(pg__check_add(c, "predicted", 1, err, "%s values for %d made-up rows on %s, finite",
                             PG_NUM(m.n), MADE_UP_ROWS, c->o->device));
done:
    pg_data_close(data);
    return st;
}

pg_status pg__check_predictions(pg__checking *c, pg_err *err)
{
    const pg_predictions to_compare = {.begin = begin, .rows = rows};
    comparison found = {.path = c->o->expect,
                        .tolerance = c->o->tolerance > 0 ? c->o->tolerance : DEFAULT_TOLERANCE};
    const pg_predict_opts opts = {.cancel = c->o->cancel};
    pg_predictions to = to_compare;
    pg_trainer *t = NULL;
    pg_data *data = NULL;
    char place[200] = "[]";
    pg_status st = PG_OK;
    to.user = &found;
    PG_TRY(open_strictly(&t, c, err));
    if (!t)
        goto done;
    if (!c->o->input) {
        PG_TRY(predict_made_up(c, t, err));
        goto done;
    }
    PG_TRY(pg_store_open(&found.want, c->o->expect, NULL, err));
    PG_TRY(pg_data_open(&data, c->o->input, err));
    PG_TRY(pg_predict(t, data, &opts, &to, err));
    const size_t i = found.of_output[found.output];
    place_of(place, sizeof place, pg_store_weight(found.want, i), found.at);
    PG_TRY(report_values(c, &found, place, err));
done:
    pg__mem_free(found.of_output);
    pg_data_close(data);
    pg_store_close(found.want);
    pg_trainer_close(t);
    return st;
}
