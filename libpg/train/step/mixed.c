/* mixed.c - see mixed.h. The scale changes as in Keras' LossScaleOptimizer (2.15: it is never below
 * 1): it is halved after a step with non-finite gradients, which changes no trained variable, and
 * doubled after 2000 other steps. Keras 2 counts a skipped step in the optimizer's iterations,
 * Keras 3 does not. A fixed scale, which Keras 3 does not have, skips nothing. */
#include "train/step/mixed.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/try.h"
#include "model/lower/policy.h"
#include "train/step/all_reduce.h"
#include "train/step/devices.h"
#include "train/step/model_parallel.h"

#define FIRST_SCALE  32768.0
#define GROWTH_STEPS 2000u

const pg__json *pg__loss_scale_of(pg__loss_scale *s, const pg__json *optimizer)
{
    const char *name = pg__json_get_str(optimizer, "class_name");
    const pg__json *config = pg__json_get(optimizer, "config");
    const pg__json *inner = pg__json_get(config, "inner_optimizer");
    double first = FIRST_SCALE;
    int64_t steps = GROWTH_STEPS;
    if (!name || strncmp(name, "LossScaleOptimizer", 18) != 0 || !inner)
        return optimizer;
    (void)pg__json_num(pg__json_get(config, "initial_scale"), &first);
    (void)pg__json_int(pg__json_get(config, "dynamic_growth_steps"), &steps);
    if (!pg__json_bool(pg__json_get(config, "dynamic"), 1))
        steps = 0;
    if (first >= 1 && isfinite((float)first) && steps >= 0)
        *s = (pg__loss_scale){.now = first, .growth_steps = (uint64_t)steps};
    return inner;
}

enum { BY_MODEL, TF32, BFLOAT16, FLOAT16, FLOAT32, EMULATED }; /* pg_train_opts.precision */

static int uses(const pg__trainer_net *net, pg__elem elem)
{
    for (size_t i = 0; net->elems && i < net->leaves.n; i++)
        if (net->elems[i] == elem)
            return 1;
    return 0;
}

const char *pg__mixed_name(const pg__trainer_net *net)
{
    static const char *const words[] = {"model",   "tf32",    "bfloat16",
                                        "float16", "float32", "bfloat16=emulate"};
    return words[net->precision];
}

/* Do products of bfloat16 pay, in memory of float32? */
static int has_bf16(const pg__trainer_devs *devs)
{
    const pg__backend *b = devs->backend;
    return b->host_memory && b->has_bf16 && b->has_bf16(devs->dev);
}

/* CPUs keep float32 in memory, and have no float16. */
static pg__elem on_host(pg__elem e)
{
    return e == PG_ELEM_BF16 ? PG_ELEM_AS_BF16 : e == PG_ELEM_F16 ? PG_ELEM_REAL : e;
}

/* Keras writes "float32" for every layer without a policy of its own; next to layers that have
 * another policy it was chosen. */
static pg__elem elem_of(const pg__trainer_net *net, size_t leaf, int asked, int has_policies)
{
    const pg__elem own = pg__policy_elem(pg__layer_policy(net->leaves.v[leaf].layer));
    if (asked == BY_MODEL || (has_policies && own == PG_ELEM_REAL))
        return own;
    return asked == BFLOAT16 ? PG_ELEM_BF16 : asked == FLOAT16 ? PG_ELEM_F16 : PG_ELEM_AS_BF16;
}

/* Layers whose policy is one of 16 bits: of that type, or of any (PG_ELEM_REAL). */
static int has_policies(const pg_trainer *t, pg__elem of)
{
    for (size_t i = 0; i < t->net.leaves.n; i++) {
        const pg__elem own = pg__policy_elem(pg__layer_policy(t->net.leaves.v[i].layer));
        if (own != PG_ELEM_REAL && (of == PG_ELEM_REAL || own == of))
            return 1;
    }
    return 0;
}

static pg_status refuse(const pg__trainer_devs *devs, int asked, pg_err *err)
{
    const char *what = asked == FLOAT16 ? "float16" : "bfloat16";
    (void)pg_fail(err, PG_E_UNSUPPORTED, "%s: %s computes with %s",
                  asked == EMULATED ? "bfloat16, emulated" : what, devs->backend->name,
                  asked == EMULATED ? "bfloat16 itself" : "float32");
    pg_err_do(err, PG_DO_USE_GPU, NULL);
    pg_err_arg(err, "precision", "%s", what);
    return PG_E_UNSUPPORTED;
}

static pg_status choose(pg_trainer *t, int asked, int policies, pg_err *err)
{
    t->net.elems = pg__mem_array(t->net.leaves.n, sizeof *t->net.elems);
    if (!t->net.elems)
        return pg__nomem(err);
    for (size_t i = 0; i < t->net.leaves.n; i++) {
        t->net.elems[i] = elem_of(&t->net, i, asked, policies);
        if (t->devs.backend->host_memory)
            t->net.elems[i] = on_host(t->net.elems[i]);
    }
    if (uses(&t->net, PG_ELEM_F16)) {
        t->compiled.scale.is_used = 1;
        if (t->compiled.scale.now <= 0)
            t->compiled.scale = (pg__loss_scale){1, FIRST_SCALE, GROWTH_STEPS, 0, 0, 0};
    }
    return PG_OK;
}

/* Notes where policies of 16 bits are followed on a CPU, and where they are not. */
static pg_status note_policies(pg_trainer *t, int in_bf16, pg_err *err)
{
    pg_status st = PG_OK;
    if (in_bf16)
        PG_TRY(pg__strs_printf(&t->report.notes, err,
                               "layers of bfloat16 (mixed precision) multiply in it on this CPU"));
    if (!in_bf16 || has_policies(t, PG_ELEM_F16))
        PG_TRY(pg__strs_printf(&t->report.notes, err,
                               "layers of %s (mixed precision) compute with float32 on the CPU",
                               in_bf16 ? "float16" : "16 bits"));
done:
    return st;
}

/* Predictions of a CPU follow a policy only if asked to: they are to be the same on all, and
 * rounding the weights for a few rows costs more than it gains. */
pg_status pg__mixed_open(pg_trainer *t, const pg_train_opts *o, pg_err *err)
{
    const int policies = has_policies(t, PG_ELEM_REAL), asked = o->precision;
    const int host = t->devs.backend->host_memory;
    const int follows = asked == BY_MODEL && !o->for_prediction && has_policies(t, PG_ELEM_BF16);
    const int in_bf16 = (asked == BFLOAT16 || follows) && has_bf16(&t->devs);
    pg_status st = PG_OK;
    if (asked < BY_MODEL || asked > EMULATED)
        PG_FAIL(PG_E_ARG, "precision: there is no kind %d", asked);
    t->net.precision = asked;
    if (host ? asked == FLOAT16 || (asked == BFLOAT16 && !in_bf16) : asked == EMULATED)
        return refuse(&t->devs, asked, err);
    if (asked == TF32 || asked == FLOAT32 || (asked == BY_MODEL && !policies))
        return PG_OK;
    if (!host || in_bf16 || asked == EMULATED)
        PG_TRY(choose(t, asked, policies, err));
    if (host && asked == BY_MODEL)
        PG_TRY(note_policies(t, in_bf16, err));
done:
    return st;
}

const char *pg__mixed_kind(const pg_trainer *t)
{
    return uses(&t->net, PG_ELEM_AS_BF16) && has_bf16(&t->devs)
               ? "avx512_bf16"
               : t->devs.backend->kind(t->devs.dev);
}

/* ---- the scale of the loss ---- */

double pg__loss_scale_now(const pg__trainer_compiled *compiled)
{
    return compiled->scale.is_used ? compiled->scale.now : 1;
}

int pg__loss_scale_skips(const pg_trainer *t)
{
    return t->compiled.scale.is_used &&
           (t->compiled.scale.growth_steps > 0 || t->net.rules->keras3);
}

void pg__loss_scale_resumed(pg__trainer_compiled *compiled)
{
    if (compiled->scale.is_used && !(compiled->scale.now >= 1))
        compiled->scale.now = FIRST_SCALE;
}

static void grow(pg__loss_scale *s)
{
    if (s->growth_steps == 0 || ++s->n_good < s->growth_steps)
        return;
    s->n_good = 0;
    if (isfinite((float)(s->now * 2)))
        s->now *= 2;
}

static void skip(pg_trainer *t)
{
    pg__loss_scale *s = &t->compiled.scale;
    s->n_good = 0;
    s->n_skipped++;
    s->now = s->now / 2 < 1 ? 1 : s->now / 2;
    if (!t->net.rules->keras3)
        t->compiled.optimizer.iterations++;
}

/* On each device that has the gradients, or its part of them. */
static pg_status unscale(pg_trainer *t, pg_err *err)
{
    const size_t n = (size_t)t->vars.offsets[t->vars.n_params];
    const double by = 1 / pg__loss_scale_now(&t->compiled);
    pg_status st = PG_OK;
    if (t->devs.is_split)
        return pg__with_message(t, pg__mp_scale(t, t->vars.grads, by), err);
    for (size_t d = 0; d < t->devs.n_devices; d++) {
        const pg__device *on = &t->devs.devices[d];
        st = t->devs.backend->flat.clip(on->dev, on->sum->mem, n, by, 0);
        PG_TRY(pg__device_failed(&t->devs, on->dev, st, err));
    }
done:
    return st;
}

pg_status pg__loss_scale_settle(pg_trainer *t, int *skips, pg_err *err)
{
    int finite = 1;
    pg_status st = PG_OK;
    *skips = 0;
    if (!t->compiled.scale.is_used)
        return PG_OK;
    PG_TRY(pg__all_reduce_wait(t, err));
    if (pg__loss_scale_skips(t))
        PG_TRY(pg__with_message(t, pg__grads_finite(t, t->devs.dev, t->vars.grads, &finite), err));
    t->compiled.scale.skipped = *skips = !finite;
    if (*skips) {
        skip(t);
        goto done;
    }
    PG_TRY(unscale(t, err));
    grow(&t->compiled.scale);
done:
    return st;
}
