/* gpu_costs MODEL LOSS OPTIMIZER ROWS PRECISION DEVICE: the work of a training step, call by call,
 * as JSON for predict.py: floating point operations, and bytes of operands and results. Nothing is
 * run: each call is recorded by itself, at addresses behind which there is no memory, so that the
 * GPU of plain C, which logs what is recorded (FAKE_CUDA_LOG), shows the launches. PRECISION: as
 * pg_train_opts.precision. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/try.h"
#include "ops/op.h"
#include "train/exec/program_impl.h"
#include "train/step/devices.h"

/* Pointers to the same place, as many as any array of a frame has. */
static void **all_at(const pg_trainer *t, void *place)
{
    const size_t n = t->vars.n_params + t->net.n_inputs + 2 * t->net.n_outputs + 1;
    void **at = pg__mem_array(n, sizeof *at);
    for (size_t k = 0; at && k < n; k++)
        at[k] = place;
    return at;
}

/* A recording of calls [from, to), which is forgotten; of none: of the preparation of weights. */
static pg_status record(const pg__backend *b, const pg__program *p, const pg__frame *f, size_t from,
                        size_t to)
{
    pg__graph_run *graph = NULL;
    pg_status st = b->capture.begin(f->dev);
    if (st != PG_OK)
        return st;
    st = from < to ? pg__program_run_calls(p, f, from, to) : pg__program_share(p, f, 0, 1);
    (void)b->capture.end(f->dev, &graph);
    if (graph)
        b->capture.forget(graph);
    return st;
}

static pg_status record_all(pg_trainer *t, const pg__program *p, pg_err *err)
{
    const pg__backend *b = t->devs.backend;
    void *place = NULL, **at = NULL, **args = pg__mem_array(pg__program_n_args(p), sizeof(void *));
    pg_status st = PG_OK;
    PG_TRY(b->alloc(t->devs.dev, &place, 1, err));
    at = all_at(t, place);
    if (!at || !args)
        PG_TRY(pg__nomem(err));
    const pg__frame f = {.arena = place,
                         .inputs = (const void *const *)at,
                         .targets = (const void *const *)at,
                         .seeds = (const void *const *)at,
                         .params = at,
                         .grads = at,
                         .step = place,
                         .scratch = place,
                         .args = args,
                         .dev = t->devs.dev};
    PG_TRY(record(b, p, &f, 0, 0));
    for (size_t i = 0; i < pg__program_n_calls(p); i++)
        PG_TRY(record(b, p, &f, i, i + 1));
done:
    b->free(t->devs.dev, place);
    pg__mem_free(at);
    pg__mem_free(args);
    return st;
}

static void print_variables(const pg_trainer *t)
{
    unsigned long long n_elems = 0;
    size_t n = 0, n_slots = 0;
    for (size_t i = 0; i < t->vars.n_params; i++) {
        n += t->vars.trained[i] != 0;
        n_elems += t->vars.trained[i] ? t->vars.n_elems[i] : 0;
    }
    for (size_t s = 0; s < PG_MAX_SLOTS; s++)
        n_slots += t->vars.slots[s].at != NULL;
    printf("\"variables\": %zu, \"elements\": %llu, \"slots\": %zu", n, n_elems, n_slots);
}

static pg_status costs(pg_trainer *t, uint64_t rows, pg_err *err)
{
    const pg__program *p = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__trainer_program(t, rows, PG_TRAINS, &p, err));
    PG_TRY(record_all(t, p, err));
    printf("{\"rows\": %llu, ", (unsigned long long)rows);
    print_variables(t);
    printf(", \"arena\": %llu, \"prepared\": %zu,\n \"calls\": [",
           (unsigned long long)pg__program_arena_bytes(p), pg__program_shared_bytes(p));
    for (size_t i = 0; i < pg__program_n_calls(p); i++) {
        const pg__step_call *c = &p->calls[i];
        printf("%s[\"%s\", %.0f, %.0f]", i ? ", " : "", pg__op_of((pg__op_kind)c->kind)->name,
               c->cost.flops, c->cost.bytes);
    }
    printf("]}\n");
done:
    return pg__with_message(t, st, err);
}

int main(int argc, char **argv)
{
    pg_trainer *t = NULL;
    pg_err err = {0};
    if (argc != 7) {
        fprintf(stderr, "usage: gpu_costs MODEL LOSS OPTIMIZER ROWS PRECISION DEVICE\n");
        return 2;
    }
    const pg_train_opts opts = {.model = argv[1],
                                .loss = argv[2],
                                .optimizer = argv[3],
                                .precision = atoi(argv[5]),
                                .devices = argv[6],
                                .threads = 1};
    pg_status st = pg_trainer_open(&t, &opts, &err);
    if (st == PG_OK)
        st = costs(t, strtoull(argv[4], NULL, 10), &err);
    if (st != PG_OK)
        fprintf(stderr, "gpu_costs: %s\n", err.msg);
    pg_trainer_close(t);
    return st != PG_OK;
}
