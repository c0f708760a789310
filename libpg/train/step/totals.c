/* totals.c - losses and metrics summed over rows, in double. Losses of single outputs as Keras 3
 * logs them (CompileLoss.call of 3.6): times their weights, and as means over batches, because
 * Keras does not know the number of rows when it traces its graph. */
#include <string.h>

#include "base/mem.h"
#include "train/step/trainer.h"

pg_status pg__totals_alloc(const pg_trainer *t, pg__totals *totals, pg_err *err)
{
    totals->loss_sums = pg__mem_array(t->net.n_outputs, sizeof *totals->loss_sums);
    totals->loss_counts = pg__mem_array(t->net.n_outputs, sizeof *totals->loss_counts);
    totals->batch_losses = pg__mem_array(t->net.n_outputs, sizeof *totals->batch_losses);
    totals->metrics = pg__mem_array(t->compiled.n_metric_state, sizeof *totals->metrics);
    return totals->loss_sums && totals->loss_counts && totals->batch_losses && totals->metrics
               ? PG_OK
               : pg__nomem(err);
}

void pg__totals_free(pg__totals *totals)
{
    pg__mem_free(totals->loss_sums);
    pg__mem_free(totals->loss_counts);
    pg__mem_free(totals->batch_losses);
    pg__mem_free(totals->metrics);
}

void pg__totals_clear(const pg_trainer *t, pg__totals *totals)
{
    memset(totals->loss_sums, 0, t->net.n_outputs * sizeof *totals->loss_sums);
    memset(totals->loss_counts, 0, t->net.n_outputs * sizeof *totals->loss_counts);
    memset(totals->batch_losses, 0, t->net.n_outputs * sizeof *totals->batch_losses);
    memset(totals->metrics, 0, t->compiled.n_metric_state * sizeof *totals->metrics);
    totals->n_batches = 0;
    totals->penalty_sum = 0;
    totals->n_rows = 0;
}

void pg__totals_add(const pg_trainer *t, pg__totals *into, const pg__totals *from)
{
    for (size_t k = 0; k < t->net.n_outputs; k++) {
        into->loss_sums[k] += from->loss_sums[k];
        into->loss_counts[k] += from->loss_counts[k];
        into->batch_losses[k] += from->batch_losses[k];
    }
    for (size_t i = 0; i < t->compiled.n_metric_state; i++)
        into->metrics[i] += from->metrics[i];
    into->n_batches += from->n_batches;
    into->penalty_sum += from->penalty_sum;
    into->n_rows += from->n_rows;
}

/* An output's weighted loss; perhaps no row had one. */
static double weighted(const pg__trainer_compiled *compiled, const pg__totals *totals, size_t k)
{
    return totals->loss_counts[k] > 0
               ? compiled->loss_weights[k] * totals->loss_sums[k] / totals->loss_counts[k]
               : 0;
}

void pg__totals_end_batch(const pg_trainer *t, pg__totals *totals)
{
    for (size_t k = 0; k < t->net.n_outputs; k++)
        totals->batch_losses[k] = weighted(&t->compiled, totals, k);
    totals->n_batches = 1;
}

double pg__output_loss(const pg__trainer_net *net, const pg__totals *totals, size_t k)
{
    return net->rules->keras3 ? totals->batch_losses[k] / (double)totals->n_batches
                              : totals->loss_sums[k] / totals->loss_counts[k];
}

double pg__total_loss(const pg_trainer *t, const pg__totals *totals)
{
    double loss = totals->n_rows > 0 ? totals->penalty_sum / (double)totals->n_rows : 0;
    for (size_t k = 0; k < t->net.n_outputs; k++)
        loss += weighted(&t->compiled, totals, k);
    return loss;
}
