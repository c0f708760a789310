/* Layers of one model on several devices of the GPU of plain C (host.h), which ends the process
 * where a device is given another's memory, and does work that nobody waits for too late: the same
 * bits as on one device, and the memory is divided. */
#include "train/golden.h"

/* The weights after some steps, and the last loss. */
typedef struct outcome {
    double *weights, loss;
    size_t n;
} outcome;

static pg_status keep_loss(void *user, size_t epoch, const pg_logs *logs, pg_err *err)
{
    (void)epoch, (void)err;
    ((outcome *)user)->loss = logs->values[0];
    return PG_OK;
}

static outcome train(const char *run, const char *place)
{
    golden g;
    outcome o = {0};
    pg_err err = {0};
    place_how = place;
    open_golden(&g, run, "cuda:0", NULL);
    const pg_callback cb = {.user = &o, .epoch_end = keep_loss};
    const pg_fit_opts opts = {.batch_size = (size_t)number(pg__json_get(g.run, "batch_size")),
                              .epochs = 2,
                              .steps_per_epoch = 3,
                              .no_shuffle = 1,
                              .validation = g.data,
                              .validation_steps = 1};
    if (pg_fit(g.trainer, g.data, &opts, &cb, &err) != PG_OK)
        fail_msg("%s, %s: %s", run, place, err.msg);
    for (size_t i = 0; i < pg_trainer_n_weights(g.trainer); i++)
        o.n += (size_t)(pg_trainer_weight(g.trainer, i)->n_bytes / sizeof(float));
    o.weights = pg__mem_array(o.n, sizeof *o.weights);
    for (size_t i = 0, at = 0, n; i < pg_trainer_n_weights(g.trainer); i++, at += n) {
        n = (size_t)(pg_trainer_weight(g.trainer, i)->n_bytes / sizeof(float));
        assert_ok(pg_trainer_read(g.trainer, i, o.weights + at, n, NULL));
    }
    close_golden(&g);
    place_how = NULL;
    return o;
}

typedef struct placing {
    const char *run, *place;
} placing;

/* Chains, branches, shared layers, skip connections, masks, states, several outputs. */
static const placing placings[] = {
    {"mlp_digits", "fc2=cuda:1,probs=cuda:1"},
    {"mlp_digits", "fc1=cuda:2,fc2=cuda:1"},
    {"mlp_digits", "*=cuda:1"},
    {"mlp_digits", "fc2=cuda:0.1"},
    {"siamese", "*lstm*#1=cuda:1"},
    {"siamese", "*lstm*#0=cuda:1,*lstm*#1=cuda:2"},
    {"siamese", "*lstm*#1=cuda:0.1,fc1=cuda:1"},
    {"cnn_bn", "*_1=cuda:1"},
    {"cnn_bn", "conv*=cuda:1,batch*=cuda:2"},
    {"unet_seg", "conv2d_[12]=cuda:1"},
    {"unet_seg", "conv2d_transpose=cuda:1,concat*=cuda:2"},
    {"bert_mini", "l0_*=cuda:1,l1_*=cuda:2"},
    {"bert_mini", "l1_*=cuda:1,add_[23]=cuda:1,global*=cuda:1,pooler=cuda:1,classifier=cuda:1"},
    {"lstm_stateful", "lstm=cuda:1"},
    {"lstm_stateless", "lstm_1=cuda:1,dense=cuda:2"},
    {"multiout", "trunk2=cuda:1,aux_*=cuda:2"},
};

static void check_bits(void)
{
    const char *run = "";
    outcome one = {0};
    for (size_t i = 0; i < sizeof placings / sizeof *placings; i++) {
        const placing *p = &placings[i];
        if (deterministic_how && strcmp(p->run, "cnn_bn") == 0)
            continue; /* refused */
        if (strcmp(run, p->run) != 0) {
            pg__mem_free(one.weights);
            one = train(p->run, NULL);
            run = p->run;
        }
        outcome placed = train(p->run, p->place);
        assert_int_equal(one.n, placed.n);
        if (memcmp(one.weights, placed.weights, one.n * sizeof *one.weights) != 0 ||
            memcmp(&one.loss, &placed.loss, sizeof one.loss) != 0)
            fail_msg("%s, %s: other numbers than on one device", p->run, p->place);
        pg__mem_free(placed.weights);
    }
    pg__mem_free(one.weights);
}

static void placed_layers_give_the_same_bits(void **state)
{
    (void)state;
    check_bits();
}

static void lanes_on_placed_layers_give_the_same_bits(void **state)
{
    (void)state;
    deterministic_how = 1;
    check_bits();
    deterministic_how = 0;
}

/* bfloat16, and float16 whose gradients are scaled. */
static void values_of_sixteen_bits_cross(void **state)
{
    (void)state;
    for (precision_how = 2; precision_how <= 3; precision_how++)
        for (size_t i = 0; i < sizeof placings / sizeof *placings; i++) {
            const placing *p = &placings[i];
            if (strcmp(p->run, "bert_mini") != 0 && strcmp(p->run, "mlp_digits") != 0)
                continue;
            outcome one = train(p->run, NULL), placed = train(p->run, p->place);
            assert_memory_equal(one.weights, placed.weights, one.n * sizeof *one.weights);
            pg__mem_free(one.weights);
            pg__mem_free(placed.weights);
        }
    precision_how = 0;
}

/* ---- memory ---- */

#define N 3

/* The most that each device had, of a run whose calls are logged. */
static void peaks(const char *run, const char *place, uint64_t top[N])
{
    char path[] = "/tmp/pg-cuda-log-XXXXXX", line[256];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    memset(top, 0, N * sizeof *top);
    assert_int_equal(setenv("FAKE_CUDA_LOG", path, 1), 0);
    outcome o = train(run, place);
    assert_int_equal(unsetenv("FAKE_CUDA_LOG"), 0);
    pg__mem_free(o.weights);
    FILE *f = fdopen(fd, "r");
    while (fgets(line, sizeof line, f)) {
        unsigned long long n;
        unsigned device;
        if (sscanf(line, "memory %llu on %u", &n, &device) == 2 && device < N && n > top[device])
            top[device] = n;
    }
    fclose(f);
    unlink(path);
}

static const char halves[] =
    "l1_*=cuda:1,add_[23]=cuda:1,global*=cuda:1,pooler=cuda:1,classifier=cuda:1";

static void memory_is_divided(void **state)
{
    uint64_t one[N], two[N];
    (void)state;
    peaks("bert_mini", NULL, one);
    peaks("bert_mini", halves, two);
    assert_true(one[0] > 0 && one[1] == 0);
    assert_true(two[0] < one[0] * 3 / 4);
    assert_true(two[1] < one[0] * 3 / 4);
    assert_true(two[0] + two[1] < one[0] * 5 / 4);
}

/* What it is for. */
static void a_model_too_large_for_one_fits_on_two(void **state)
{
    uint64_t one[N], two[N];
    char room[32];
    golden g;
    pg_err err = {0};
    (void)state;
    peaks("bert_mini", NULL, one);
    peaks("bert_mini", halves, two);
    snprintf(room, sizeof room, "%llu", (unsigned long long)(one[0] - one[0] / 8));
    assert_true(two[0] < one[0] - one[0] / 8 && two[1] < one[0] - one[0] / 8);
    assert_int_equal(setenv("FAKE_CUDA_MEMORY", room, 1), 0);
    open_golden(&g, "bert_mini", "cuda:0", NULL);
    const pg_fit_opts opts = {.batch_size = (size_t)number(pg__json_get(g.run, "batch_size")),
                              .epochs = 1};
    assert_fails(PG_E_NOMEM, pg_fit(g.trainer, g.data, &opts, NULL, &err), &err);
    close_golden(&g);
    outcome o = train("bert_mini", halves);
    pg__mem_free(o.weights);
    assert_int_equal(unsetenv("FAKE_CUDA_MEMORY"), 0);
}

static int three_devices(void **state)
{
    (void)state;
    return setenv("FAKE_CUDA_DEVICES", "3", 1);
}

PG_TEST_MAIN_WITH(three_devices, NULL, cmocka_unit_test(placed_layers_give_the_same_bits),
                  cmocka_unit_test(lanes_on_placed_layers_give_the_same_bits),
                  cmocka_unit_test(values_of_sixteen_bits_cross),
                  cmocka_unit_test(memory_is_divided),
                  cmocka_unit_test(a_model_too_large_for_one_fits_on_two))
