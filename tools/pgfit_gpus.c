/* pgfit_gpus.c - with --verbose: memory in use on the GPUs, and the share of the epoch in which
 * they were busy, as their driver counts it. Prints nothing if the driver cannot be asked. */
#include "json_out.h"
#include "pgfit.h"

static const double every_s = 0.25; /* the driver gives a mean over at least a sixth of a second */

static void look(fit_screen *s)
{
    pg_gpu g;
    for (size_t k = 0; k < FIT_MAX_GPUS && pg_trainer_gpu(s->trainer, k, &g); k++)
        if (g.busy >= 0) {
            s->gpus[k].busy += g.busy;
            s->gpus[k].n++;
        }
    s->asked = fit_now();
}

void fit_watch_gpus(fit_screen *s)
{
    if (cli.verbose && fit_now() - s->asked >= every_s)
        look(s);
}

static void print_json(const fit_screen *s, const fit_gpu *of, const pg_gpu *g)
{
    printf("{\"event\": \"gpu\", \"epoch\": %zu, \"device\": \"cuda:%zu\"", s->epoch + 1,
           g->ordinal);
    json_member("kind", g->kind);
    json_count("used_bytes", 1, g->used_bytes);
    json_count("total_bytes", 1, g->total_bytes);
    if (of->n > 0)
        printf(", \"busy\": %.3f", of->busy / of->n / 100);
    puts("}");
}

static void print_line(const fit_gpu *of, const pg_gpu *g)
{
    cli_printf(stdout, "cuda:%zu: %s of %s in use", g->ordinal, cli_size(g->used_bytes).s,
               cli_size(g->total_bytes).s);
    if (of->n > 0)
        cli_printf(stdout, ", busy %.0f %%", of->busy / of->n);
    putchar('\n');
}

void fit_print_gpus(fit_screen *s)
{
    pg_gpu g;
    if (!cli.verbose || (cli.quiet && !cli.json))
        return;
    if (s->gpus[0].n == 0)
        look(s); /* the epoch was short */
    for (size_t k = 0; k < FIT_MAX_GPUS && pg_trainer_gpu(s->trainer, k, &g); k++) {
        if (cli.json)
            print_json(s, &s->gpus[k], &g);
        else
            print_line(&s->gpus[k], &g);
        s->gpus[k] = (fit_gpu){0};
    }
    fflush(stdout);
}
