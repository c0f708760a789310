/* optimizer.h - updates flat parameters by their gradients. State has the layout of its parameter,
 * so a rule is a loop over flat memory. Source: keras/optimizers and keras/optimizers/legacy of
 * 2.15, keras/src/optimizers of 3.6. */
#ifndef PG_OPS_OPTIMIZER_H
#define PG_OPS_OPTIMIZER_H

#include <stddef.h>

/* The last slot does not belong to a rule: the moving average of the parameters (use_ema). */
#define PG_MAX_SLOTS    4
#define PG_SLOT_AVERAGE 3

/* What a rule needs, including the numbers computed for this step. */
typedef struct pg__update {
    double lr; /* decayed */
    double momentum, rho, beta_1, beta_2, epsilon, weight_decay;
    int nesterov, amsgrad, centered;
    int rounds_first; /* 1 - rho and the like are computed from rho rounded to the type */
    double alpha; /* adam: lr sqrt(1 - beta_2^t) / (1 - beta_1^t); adamax: lr / (1 - beta_1^t) */
    double m_share, g_share;         /* nadam: factors of the average and of the gradient */
    double v_correction;             /* nadam: 1 - beta_2^t */
    double power, l1, l2, shrinkage; /* ftrl: -learning_rate_power; l2 including what beta adds */
    double average; /* share of itself that the moving average keeps; only if its slot exists */
    int to_average; /* parameters are set to it */
} pg__update;

typedef enum pg__optimizer_kind {
#define PG_OPTIMIZER(name, slots) PG_OPT_##name,
#include "ops/optimizers.def"
#undef PG_OPTIMIZER
    PG_N_OPTIMIZERS
} pg__optimizer_kind;

/* w, g and slots are float (f32) or double (f64) arrays of n numbers; unused slots may be NULL. */
typedef void (*pg__update_fn)(const pg__update *u, void *w, const void *g, void *const *slots,
                              size_t n);

typedef struct pg__optimizer_type {
    const char *name;
    size_t n_slots;
    pg__update_fn f32, f64;
} pg__optimizer_type;

const pg__optimizer_type *pg__optimizer_of(pg__optimizer_kind kind);

/* Norms to which gradients are clipped: of each variable, or of all gradients together; 0: not
 * clipped. */
typedef struct pg__norm_limits {
    double each, together;
    int both; /* `together` also if `each` is given */
} pg__norm_limits;

#endif
