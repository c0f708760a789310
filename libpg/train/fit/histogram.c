/* histogram.c - counts values on the device in 30 buckets of equal width between the least and the
 * greatest.
 *
 * Source: _buckets() of tensorboard/plugins/histogram/summary_v2.py (2.15.2): in double; the last
 * bucket includes the greatest value; if all values are equal, they count in the last bucket.
 *
 * Tags: on_epoch_end() of keras/src/callbacks.py (2.15.0), the weight's name with '_' for ':'.
 * There, weights with the same name in nested models share a tag, and TensorBoard shows only one.
 */
#include "train/fit/histogram.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "train/step/step.h"

#define PIECE 2048 /* elements read at a time */
#define LAST  (PG_EVENT_BUCKETS - 1)
#define LANES 8
#define WAYS                                                                                   \
    4 /* tables used in turn, because successive increments of one counter would wait for each \
         other */

/* The results of two passes over the values. */
typedef struct spread {
    double least, greatest, width;
    uint64_t n;
    uint64_t counts[PG_EVENT_BUCKETS];
} spread;

typedef void look(spread *s, const double *v, size_t n);

/* With lanes of its own: not every compiler vectorises a reduction to min and max. */
static void find_ends(spread *s, const double *v, size_t n)
{
    double least[LANES], greatest[LANES];
    for (size_t k = 0; k < LANES; k++) {
        least[k] = s->least;
        greatest[k] = s->greatest;
    }
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            least[k] = v[i + k] < least[k] ? v[i + k] : least[k];
            greatest[k] = v[i + k] > greatest[k] ? v[i + k] : greatest[k];
        }
    for (size_t k = 0; i < n; i++, k++) {
        least[k] = v[i] < least[k] ? v[i] : least[k];
        greatest[k] = v[i] > greatest[k] ? v[i] : greatest[k];
    }
    for (size_t k = 0; k < LANES; k++) {
        s->least = least[k] < s->least ? least[k] : s->least;
        s->greatest = greatest[k] > s->greatest ? greatest[k] : s->greatest;
    }
    s->n += n;
}

static void count(spread *s, const double *v, size_t n)
{
    const double least = s->least, width = s->width;
    uint32_t tables[WAYS][PG_EVENT_BUCKETS] = {{0}};
    int bucket[PIECE];
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        const double at = (v[i] - least) / width; /* never negative: truncation is floor() */
        bucket[i] = (int)(at < LAST ? at : LAST);
    }
    for (size_t i = 0; i < n; i++)
        tables[i % WAYS][bucket[i]]++;
    for (size_t w = 0; w < WAYS; w++)
        for (size_t i = 0; i < PG_EVENT_BUCKETS; i++)
            s->counts[i] += tables[w][i];
}

/* Moves finite values to the front, and counts them. */
static size_t keep_finite(double *v, size_t n)
{
    double zero = 0; /* only for non-finite values v * 0 is not 0 */
    size_t kept = 0;
#pragma omp simd reduction(+ : zero)
    for (size_t i = 0; i < n; i++)
        zero += v[i] * 0;
    if (zero == 0)
        return n;
    for (size_t i = 0; i < n; i++)
        if (isfinite(v[i]))
            v[kept++] = v[i];
    return kept;
}

static pg_status each_piece(spread *s, look *f, pg_trainer *t, size_t param)
{
    const size_t bytes = t->devs.backend->real_bytes, n_elems = t->vars.n_elems[param];
    const char *from = t->vars.params.at[param];
    double wide[PIECE];
    float piece[PIECE];
    pg_status st = PG_OK;
    for (size_t at = 0, n; at < n_elems; at += n) {
        n = n_elems - at < PIECE ? n_elems - at : PIECE;
        void *to = bytes == sizeof *wide ? (void *)wide : (void *)piece;
        PG_TRY(t->devs.backend->get(pg__param_dev(t, param), to, from + at * bytes, n * bytes));
        if (bytes != sizeof *wide)
#pragma omp simd
            for (size_t i = 0; i < n; i++)
                wide[i] = (double)piece[i];
        f(s, wide, keep_finite(wide, n));
    }
done:
    return st;
}

pg_status pg__param_histogram(double out[PG_EVENT_BUCKETS][3], pg_trainer *t, size_t param)
{
    spread s = {.least = INFINITY, .greatest = -INFINITY};
    pg_status st = PG_OK;
    PG_TRY(each_piece(&s, find_ends, t, param));
    if (s.n == 0) {
        memset(out, 0, sizeof(double[PG_EVENT_BUCKETS][3]));
        return PG_OK;
    }
    s.width = (s.greatest - s.least) / PG_EVENT_BUCKETS;
    if (s.width > 0)
        PG_TRY(each_piece(&s, count, t, param));
    else
        s.counts[LAST] = s.n;
    for (size_t i = 0; i < PG_EVENT_BUCKETS; i++) {
        out[i][0] = s.least + s.width * (double)i;
        out[i][1] = s.least + s.width * (double)(i + 1);
        out[i][2] = (double)s.counts[i];
    }
    out[LAST][1] = s.greatest;
done:
    return st;
}

/* ---- tags ---- */

/* What makes a weight's tag unique. */
enum { BY_NAME, BY_MODEL, BY_NUMBER };

/* The name between a recurrent layer and its weights, "lstm_cell/", or "". */
static const char *cell_of(const pg__layer *l)
{
    static const char *const classes[] = {"LSTM", "GRU", "SimpleRNN"};
    static const char *const cells[] = {"lstm_cell/", "gru_cell/", "simple_rnn_cell/"};
    while (l->inner)
        l = l->inner;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(l->class_name, classes[i]) == 0)
            return cells[i];
    return "";
}

/* Keras' name for weight i: the one in a file of Keras 2, or else the one that Keras would make. */
static pg_status put_name(pg__str *to, const pg_trainer *t, size_t i, pg_err *err)
{
    const size_t param = t->vars.order[i];
    const char *stored = t->vars.file_names[param], *name = t->vars.weights[i].name;
    const char *var = strrchr(name, '/') + 1;
    if (stored && strchr(stored, '/') && strchr(stored, ':') && !t->net.rules->keras3)
        return pg__str_puts(to, stored, err);
    return pg__str_printf(to, err, "%.*s%s%s%s", (int)(var - name), name,
                          cell_of(t->net.built_params.params[param].leaf->layer), var,
                          t->net.rules->keras3 ? "" : ":0");
}

/* That name with '_' for ':', prefixed with its nested model if the name alone is not unique. */
static pg_status put_tag(pg__strs *to, const pg_trainer *t, size_t i, int how, pg_err *err)
{
    const char *model = t->net.built_params.params[t->vars.order[i]].leaf->parent;
    pg__str tag = {0};
    pg_status st = PG_OK;
    if (how != BY_NAME && *model)
        PG_TRY(pg__str_printf(&tag, err, "%s/", model));
    PG_TRY(put_name(&tag, t, i, err));
    for (char *p = tag.s; *p; p++)
        *p = *p == ':' ? '_' : *p;
    if (how == BY_NUMBER)
        PG_TRY(pg__str_printf(&tag, err, "_%zu", i));
    PG_TRY(pg__strs_printf(to, err, "%s/histogram", tag.s));
done:
    pg__str_fini(&tag);
    return st;
}

static pg_status put_tags(pg__strs *to, const pg_trainer *t, const unsigned char *how, pg_err *err)
{
    pg_status st = PG_OK;
    pg__strs_fini(to);
    for (size_t i = 0; i < t->vars.n_params; i++)
        PG_TRY(put_tag(to, t, i, how[i], err));
done:
    return st;
}

static int is_twice(const pg__strs *sorted, const char *tag)
{
    const size_t i = pg__strs_search(sorted, tag);
    return (i > 0 && strcmp(sorted->v[i - 1], tag) == 0) ||
           (i + 1 < sorted->n && strcmp(sorted->v[i + 1], tag) == 0);
}

pg_status pg__histogram_tags(pg__strs *out, const pg_trainer *t, pg_err *err)
{
    unsigned char *how = pg__mem_array(t->vars.n_params, 1);
    pg__strs sorted = {0};
    pg_status st = PG_OK;
    if (!how)
        return pg__nomem(err);
    memset(how, t->net.rules->keras3 ? BY_MODEL : BY_NAME, t->vars.n_params);
    PG_TRY(put_tags(out, t, how, err));
    for (unsigned char next = BY_MODEL; next <= BY_NUMBER; next++) {
        PG_TRY(put_tags(&sorted, t, how, err));
        pg__strs_sort(&sorted);
        for (size_t i = 0; i < t->vars.n_params; i++)
            if (is_twice(&sorted, out->v[i]))
                how[i] = next;
        PG_TRY(put_tags(out, t, how, err));
    }
done:
    pg__strs_fini(&sorted);
    pg__mem_free(how);
    return st;
}
