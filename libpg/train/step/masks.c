/* masks.c - masked outputs and zero weights: what the sum of a batch's losses is divided by.
 *
 * Keras divides by the number of terms. From 2.15 on, masked steps are not counted; up to 2.2,
 * neither masked steps nor weights of 0 were. The backward pass needs the number before it begins,
 * so a program of its own computes the masks beforehand. Sources: keras/losses.py and
 * utils/losses_utils.py of 2.15, engine/training_utils.py of 2.2.4. */
#include "train/step/masks.h"

#include "base/mem.h"
#include "base/try.h"

static double n_nonzero(const pg__trainer_devs *devs, const void *v, uint64_t n)
{
    uint64_t hits = 0;
    for (uint64_t i = 0; i < n; i++)
        hits += devs->backend->real_bytes == sizeof(double) ? ((const double *)v)[i] != 0
                                                            : ((const float *)v)[i] != 0;
    return (double)hits;
}

void pg__mask_sum_add(pg__mask_sum *into, const pg__mask_sum *from)
{
    into->steps += from->steps;
    into->n_steps += from->n_steps;
    into->classes += from->classes;
    into->n_classes += from->n_classes;
    into->weights += from->weights;
    into->n_weights += from->n_weights;
}

pg_status pg__masks_check(const pg_trainer *t, pg_err *err)
{
    const pg__lowered *m = &t->net.built_params;
    for (size_t k = 0; k < m->n_outputs; k++)
        if (t->compiled.objectives[k].loss.ignores && pg__output_mask(m, k) != PG_NO_VAL)
            return pg_fail(
                err, PG_E_UNSUPPORTED,
                "output \"%s\": ignore_class is not supported together with masked steps",
                PG_SHOW(t->net.output_names[k]));
    return PG_OK;
}

int pg__masks_count(const pg_trainer *t)
{
    const pg__lowered *m = &t->net.built_params;
    for (size_t k = 0; k < m->n_outputs; k++)
        if (t->compiled.objectives[k].has_loss && pg__output_mask(m, k) != PG_NO_VAL)
            return t->net.rules->mask_rescaled || t->net.rules->loss_norm_nonzero;
    return 0;
}

pg_status pg__masks_add(pg_trainer *t, const pg__program *p, const pg__frame *f, pg__mask_sum *sums,
                        pg_err *err)
{
    size_t at = 0;
    int meets = 0;
    pg_status st = PG_OK;
    void *mask = NULL;
    PG_TRY(pg__program_run(p, f, &at, &meets));
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        const pg__value *v = pg__program_mask_value(p, k);
        if (!v)
            continue;
        const uint64_t n = pg__dims_elems(&v->shape);
        mask = pg__mem_array(n, t->devs.backend->real_bytes);
        if (!mask)
            PG_TRY(pg__nomem(err));
        PG_TRY(t->devs.backend->get(f->dev, mask, pg__program_mask(p, f, k),
                                    (size_t)n * t->devs.backend->real_bytes));
        sums[k].steps += n_nonzero(&t->devs, mask, n);
        sums[k].n_steps += (double)n;
        pg__mem_free(mask);
        mask = NULL;
    }
done:
    pg__mem_free(mask);
    return st;
}

static int weights_count(const pg__trainer_net *net, const pg__batch *b, size_t k)
{
    return b->weights[k] && net->rules->loss_norm_nonzero;
}

int pg__shares_count(const pg_trainer *t, const pg__batch *b)
{
    int counts = pg__masks_count(t);
    for (size_t k = 0; k < t->net.n_outputs; k++)
        counts |= t->compiled.objectives[k].loss.ignores || weights_count(&t->net, b, k);
    return counts;
}

void pg__shares_add(const pg_trainer *t, const pg__batch *b, size_t k, uint64_t n_terms,
                    pg__mask_sum *sum)
{
    const pg__loss_attrs *loss = &t->compiled.objectives[k].loss;
    const int32_t *classes = b->targets[k];
    if (loss->ignores)
        sum->n_classes += (double)n_terms;
    for (uint64_t i = 0; loss->ignores && i < n_terms; i++)
        sum->classes += classes[i] != loss->ignored;
    if (!weights_count(&t->net, b, k))
        return;
    sum->weights += n_nonzero(&t->devs, b->weights[k], n_terms);
    sum->n_weights += (double)n_terms;
}

/* A target class that the loss ignores counts as a masked step. */
double pg__loss_share(const pg_trainer *t, const pg__mask_sum *sum, size_t k)
{
    const pg__loss_attrs *loss = &t->compiled.objectives[k].loss;
    const double valid = loss->ignores ? sum->classes : sum->steps;
    const double n = loss->ignores ? sum->n_classes : sum->n_steps;
    double s = 1;
    if (loss->sums)
        return 1;
    if (n > 0 && t->net.rules->mask_rescaled) /* Keras 3 allows a batch without any step */
        s = (valid + (t->net.rules->keras3 ? 1e-7 : 0)) / n;
    if (n > 0 && t->net.rules->loss_norm_nonzero)
        s = valid / n;
    if (sum->n_weights > 0)
        s *= sum->weights / sum->n_weights;
    return s;
}
