/* lower_test.h - a model of one layer, lowered and computed in double by the plain C answers. */
#ifndef PG_TESTS_LOWER_TEST_H
#define PG_TESTS_LOWER_TEST_H

#include "match_test.h"

#include "model/lower/lower.h"

typedef struct lowered_layer {
    template_ t;
    pg__lowered low;
    double **values; /* per value of the tape */
    pg_status st;
    pg_err err;
} lowered_layer;

/* shape: of the input without the rows, "7,8,3"; config: members behind those. */
static inline lowered_layer lower_one(const char *class_name, const char *shape, const char *config,
                                      const char *version, uint64_t n_rows, int training)
{
    char json[4096];
    lowered_layer l = {.st = PG_OK};
    const pg__rules *rules;
    assert_ok(pg__rules_of(&rules, version, NULL));
    snprintf(json, sizeof json,
             "{\"class_name\":\"Sequential\",\"config\":[{\"class_name\":\"%s\",\"config\":"
             "{\"name\":\"l\",\"batch_input_shape\":[null,%s]%s%s}}]}",
             class_name, shape, config[0] ? "," : "", config);
    l.t = template_of(json);
    l.st = pg__lower(&l.low,
                     &(pg__lower_opts){.graph = l.t.g,
                                       .leaves = &l.t.leaves,
                                       .rules = rules,
                                       .n_rows = n_rows,
                                       .training = training},
                     &l.err);
    return l;
}

static inline uint64_t n_of(const lowered_layer *l, pg__val v)
{
    return pg__dims_elems(&l->low.tape.values[v].shape);
}

static inline void drop(lowered_layer *l)
{
    for (pg__val v = 0; l->values && v < l->low.tape.n_values; v++)
        free(l->values[v]);
    free(l->values);
    if (l->st == PG_OK)
        pg__lowered_fini(&l->low);
    template_free(&l->t);
}

static inline pg__arg arg_of(const lowered_layer *l, pg__val v)
{
    static const pg__dims none = {.rank = 0};
    return v == PG_NO_VAL ? (pg__arg){&none, NULL, 0}
                          : (pg__arg){&l->low.tape.values[v].shape, l->values[v], n_of(l, v)};
}

/* The output for this input, of which `seed` is the step's, and parameters that are filled by
 * fill(). */
static inline const double *compute(lowered_layer *l, const double *x, int32_t seed,
                                    void (*fill)(const char *name, double *v, uint64_t n))
{
    const pg__tape *t = &l->low.tape;
    if (l->st != PG_OK)
        fail_msg("%s", l->err.msg);
    l->values = calloc(t->n_values + 1, sizeof *l->values);
    for (pg__val v = 0; v < t->n_values; v++) {
        l->values[v] = calloc(n_of(l, v) + 1, sizeof(double));
        if (t->values[v].role == PG_INPUT)
            memcpy(l->values[v], x, n_of(l, v) * sizeof *x);
        else if (t->values[v].role == PG_PER_STEP)
            *(int32_t *)l->values[v] = seed;
        else if (t->values[v].role == PG_PARAM)
            fill(l->low.params[t->values[v].slot].var->name, l->values[v], n_of(l, v));
    }
    for (uint32_t i = 0; i < t->n_insts; i++) {
        const pg__inst *inst = &t->insts[i];
        pg__arg in[16], out[8];
        for (uint32_t k = 0; k < inst->n_in; k++)
            in[k] = arg_of(l, pg__in(t, inst, k));
        for (uint32_t k = 0; k < inst->n_out; k++)
            out[k] = arg_of(l, pg__out(t, inst, k));
        if (t->values[pg__out(t, inst, 0)].alias != PG_NO_VAL)
            memcpy(out[0].p, in[0].p, in[0].n * sizeof(double));
        else
            inst->op->ref_f64(inst->attrs, in, inst->n_in, out, inst->n_out);
    }
    return l->values[l->low.outputs[0]];
}

/* What the first operation of a kind gave. */
static inline const double *result_of(const lowered_layer *l, pg__op_kind kind)
{
    for (uint32_t i = 0; i < l->low.tape.n_insts; i++)
        if (l->low.tape.insts[i].op == pg__op_of(kind))
            return l->values[pg__out(&l->low.tape, &l->low.tape.insts[i], 0)];
    fail_msg("no %s", pg__op_of(kind)->name);
    return NULL;
}

#endif
