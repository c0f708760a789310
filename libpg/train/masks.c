/* masks.c - masked outputs and zero weights: what the sum of a batch's losses is divided by.
 *
 * Keras divides by the number of terms; from 2.15 on a mask leaves only its steps in that number,
 * to 2.2 so did masks and weights of 0. The gradient needs the number before it begins, so masks
 * are computed beforehand, by a program of their own that holds nothing else. Sources:
 * keras/losses.py and utils/losses_utils.py of 2.15, engine/training_utils.py of 2.2.4. */
#include "train/masks.h"

#include "base/mem.h"
#include "base/try.h"

/* Share of the numbers that are not 0. */
static double share(const pg_trainer *t, const void *v, uint64_t n)
{
    uint64_t hits = 0;
    for (uint64_t i = 0; i < n; i++)
        hits += t->backend->real_bytes == sizeof(double) ? ((const double *)v)[i] != 0
                                                         : ((const float *)v)[i] != 0;
    return n > 0 ? (double)hits / (double)n : 1;
}

pg_status pg__masks_check(const pg_trainer *t, pg_err *err)
{
    const pg__lowered *m = &t->built_params;
    for (size_t k = 0; k < m->n_outputs; k++)
        if (t->objectives[k].loss.ignores && pg__output_mask(m, k) != PG__NO_VAL)
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "output \"%s\": ignore_class is not covered where steps are masked, too",
                           PG_SHOW(t->output_names[k]));
    return PG_OK;
}

int pg__masks_count(const pg_trainer *t)
{
    const pg__lowered *m = &t->built_params;
    for (size_t k = 0; k < m->n_outputs; k++)
        if (t->objectives[k].has_loss && pg__output_mask(m, k) != PG__NO_VAL)
            return t->rules->mask_rescaled || t->rules->loss_norm_nonzero;
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
    for (size_t k = 0; k < t->n_outputs; k++) {
        const pg__value *v = pg__program_mask_value(p, k);
        if (!v)
            continue;
        const uint64_t n = pg__dims_elems(&v->shape);
        mask = pg__mem_array(n, t->backend->real_bytes);
        if (!mask)
            PG_TRY(pg__nomem(err));
        PG_TRY(t->backend->get(f->dev, mask, pg__program_mask(p, f, k),
                               (size_t)n * t->backend->real_bytes));
        sums[k].valid += share(t, mask, n) * (double)n;
        sums[k].n += (double)n;
        pg__mem_free(mask);
        mask = NULL;
    }
done:
    pg__mem_free(mask);
    return st;
}

/* What a loss leaves out by the target's class is masked like a step. */
static pg__mask_sum not_ignored(const pg__loss_attrs *loss, const int32_t *classes, uint64_t n)
{
    pg__mask_sum sum = {.n = (double)n};
    for (uint64_t i = 0; i < n; i++)
        sum.valid += classes[i] != loss->ignored;
    return sum;
}

double pg__loss_share(const pg_trainer *t, const pg__mask_sum *masked, const pg__batch *b, size_t k,
                      uint64_t n_terms)
{
    const pg__loss_attrs *loss = &t->objectives[k].loss;
    const void *weights = b->weights[k];
    const pg__mask_sum of_classes =
        loss->ignores ? not_ignored(loss, b->targets[k], n_terms) : (pg__mask_sum){0};
    const pg__mask_sum *mask = loss->ignores ? &of_classes : masked;
    double s = 1;
    if (loss->sums)
        return 1;
    if (mask->n > 0 && t->rules->mask_rescaled) /* Keras 3 lets a batch have no step at all */
        s = (mask->valid + (t->rules->keras3 ? 1e-7 : 0)) / mask->n;
    if (mask->n > 0 && t->rules->loss_norm_nonzero)
        s = mask->valid / mask->n;
    if (weights && t->rules->loss_norm_nonzero)
        s *= share(t, weights, n_terms);
    return s;
}
