/* totals.c - losses and metrics summed over rows, in double. */
#include <string.h>

#include "base/mem.h"
#include "train/trainer.h"

pg_status pg__totals_alloc(const pg_trainer *t, pg__totals *totals, pg_err *err)
{
    totals->loss_sums = pg__mem_array(t->n_outputs, sizeof *totals->loss_sums);
    totals->loss_counts = pg__mem_array(t->n_outputs, sizeof *totals->loss_counts);
    totals->metrics = pg__mem_array(t->n_metrics, sizeof *totals->metrics);
    return totals->loss_sums && totals->loss_counts && totals->metrics ? PG_OK : pg__nomem(err);
}

void pg__totals_free(pg__totals *totals)
{
    pg__mem_free(totals->loss_sums);
    pg__mem_free(totals->loss_counts);
    pg__mem_free(totals->metrics);
}

void pg__totals_clear(const pg_trainer *t, pg__totals *totals)
{
    memset(totals->loss_sums, 0, t->n_outputs * sizeof *totals->loss_sums);
    memset(totals->loss_counts, 0, t->n_outputs * sizeof *totals->loss_counts);
    memset(totals->metrics, 0, t->n_metrics * sizeof *totals->metrics);
    totals->penalty_sum = 0;
    totals->n_rows = 0;
}

void pg__totals_add(const pg_trainer *t, pg__totals *into, const pg__totals *from)
{
    for (size_t k = 0; k < t->n_outputs; k++) {
        into->loss_sums[k] += from->loss_sums[k];
        into->loss_counts[k] += from->loss_counts[k];
    }
    for (size_t i = 0; i < t->n_metrics; i++) {
        into->metrics[i].sum += from->metrics[i].sum;
        into->metrics[i].count += from->metrics[i].count;
    }
    into->penalty_sum += from->penalty_sum;
    into->n_rows += from->n_rows;
}

double pg__total_loss(const pg_trainer *t, const pg__totals *totals)
{
    double loss = totals->n_rows > 0 ? totals->penalty_sum / (double)totals->n_rows : 0;
    for (size_t k = 0; k < t->n_outputs; k++)
        if (totals->loss_counts[k] > 0)
            loss += t->loss_weights[k] * totals->loss_sums[k] / totals->loss_counts[k];
    return loss;
}
