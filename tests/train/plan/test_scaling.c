/* A step on other devices: the arithmetic against numbers found by hand, the text of a plan, and
 * that making one leaves the trainer as it was. */
#include "pg_test.h"

#include <math.h>

#include "train/plan/scaling.h"
#include "train/step/ranks.h"

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-9)

/* Hosts of one device; a message takes 1 ms, a second 1 MB. */
static pg__layout hosts(size_t n)
{
    return (pg__layout){.n_hosts = n, .per_host = 1, .outer = {1e-3, 1e6}, .inner = {1e-4, 1e7}};
}

/* Two buckets, the first left behind after 0.2 of 1 s. */
static const pg__pace pace = {
    .compute = 1, .ready = {0.2, 1}, .reduce = 0.01, .update = 0.05, .rest = 0.002};

/* Of as many bytes as sums between two hosts take so many seconds for. */
static pg__load load_of(double first, double second)
{
    return (pg__load){
        .n = 2, .bytes = {(first - 1e-3) * 1e6, (second - 1e-3) * 1e6}, .goes_along = 1};
}

static void sums_take_the_soonest_of_three_ways(void **state)
{
    const pg__link l = {1e-3, 1e6};
    (void)state;
    assert_near(pg__sum_seconds(&l, 1, 1e6), 0);
    assert_near(pg__sum_seconds(&l, 2, 1000), 0.002);  /* 1 ms + 1 ms, not 2 ms + 1 ms */
    assert_near(pg__sum_seconds(&l, 4, 1000), 0.004);  /* 2 (1 + 1), not 6 + 1.5 */
    assert_near(pg__sum_seconds(&l, 4, 10000), 0.019); /* 4 + 15, not 2 (1 + 10) */
    assert_near(pg__sum_seconds(&l, 3, 0), 0.002);
}

static void shares_are_half_of_a_sum(void **state)
{
    const pg__link l = {1e-3, 1e6};
    (void)state;
    pg__load load = {.is_sharded = 1};
    assert_near(pg__share_seconds(&l, 1, 1e6, &load), 0);
    assert_near(pg__share_seconds(&l, 8, 8000, &load), 0.014); /* 7 messages, 7 ms of bytes */
    load.share_rate = 2e6;                                     /* the link is slower */
    assert_near(pg__share_seconds(&l, 8, 8000, &load), 0.014);
    load.share_rate = 5e5;
    assert_near(pg__share_seconds(&l, 8, 8000, &load), 0.021);
    load = (pg__load){.is_sharded = 1, .in_tree = 1};
    assert_near(pg__share_seconds(&l, 8, 8000, &load), 0.01); /* 3 halvings */
    assert_near(2 * pg__share_seconds(&l, 4, 1e6, &load), pg__sum_seconds(&l, 4, 1e6));
}

/* Buckets of 200 and 100 kB among 4: 0.153 and 0.078 s for the parts of their sums, of which the
 * backward pass hides the first, and as long for the weights, which nothing hides. */
static void shards_update_less_and_then_tell(void **state)
{
    const pg__layout four = hosts(4);
    pg__load load = {.n = 2, .bytes = {2e5, 1e5}, .goes_along = 1, .is_sharded = 1};
    pg__parts_of_step s = pg__step_on(&four, &pace, &load);
    (void)state;
    assert_near(s.update, 0.05 / 4);
    assert_near(s.exchange, 2 * (0.153 + 0.078));
    assert_near(s.shown, 0.078 + 0.153 + 0.078);
    assert_near(s.all, s.compute + s.shown + s.update + s.rest);
    load.in_tree = 1; /* 2 messages instead of 3 */
    assert_near(pg__step_on(&four, &pace, &load).exchange, 2 * (0.152 + 0.077));
    load.in_tree = 0;
    load.sums_whole = 1;
    s = pg__step_on(&four, &pace, &load);
    assert_near(s.exchange, 0.304 + 0.154 + 0.153 + 0.078);
    const pg__layout one = hosts(1);
    assert_near(pg__step_on(&one, &pace, &load).update, 0.05);
}

static void one_device_waits_for_nobody(void **state)
{
    const pg__layout one = hosts(1);
    const pg__load load = load_of(0.3, 0.1);
    const pg__parts_of_step s = pg__step_on(&one, &pace, &load);
    (void)state;
    assert_near(s.all, 1 + 0.01 + 0.05 + 0.002);
    assert_near(s.exchange, 0);
    assert_near(s.shown, 0);
}

static void what_comes_last_cannot_be_hidden(void **state)
{
    const pg__layout two = hosts(2);
    pg__load load = load_of(0.3, 0.1);
    pg__parts_of_step s = pg__step_on(&two, &pace, &load);
    (void)state;
    assert_near(s.exchange, 0.4);
    assert_near(s.shown, 0.1); /* the first bucket's 0.3 s from 0.2 on are hidden */
    assert_near(s.all, 1 + 0.1 + 0.05 + 0.002);
    load.goes_along = 0;
    s = pg__step_on(&two, &pace, &load);
    assert_near(s.shown, 0.4);
    assert_near(s.all, 1 + 0.4 + 0.05 + 0.002);
}

static void all_is_hidden_where_nothing_comes_last(void **state)
{
    const pg__layout two = hosts(2);
    pg__load load = load_of(0.3, 0.2);
    pg__pace early = pace;
    (void)state;
    early.ready[1] = 0.7; /* is over at 0.9 */
    const pg__parts_of_step s = pg__step_on(&two, &early, &load);
    assert_near(s.exchange, 0.5);
    assert_near(s.shown, 0);
    assert_near(s.all, 1 + 0.05 + 0.002);
}

static void buckets_wait_for_the_link(void **state)
{
    const pg__layout two = hosts(2);
    const pg__load load = load_of(1.5, 0.1); /* until 1.7, until 1.8 */
    const pg__parts_of_step s = pg__step_on(&two, &pace, &load);
    (void)state;
    assert_near(s.shown, 0.8);
}

static void small_sums_cost_their_messages(void **state)
{
    const pg__layout eight = hosts(8);
    const pg__load load = {.n = 2, .goes_along = 0, .n_small = 2};
    const pg__parts_of_step s = pg__step_on(&eight, &pace, &load);
    (void)state;
    assert_near(s.exchange, 4 * 3e-3); /* two sums and two that tell: 3 messages each */
    assert_near(s.shown, 4 * 3e-3);
}

static void hosts_sum_within_and_then_between(void **state)
{
    const pg__load load = {.n = 1, .bytes = {1e5}};
    pg__layout both = hosts(2);
    (void)state;
    both.per_host = 4;
    /* 4 within: 4 x 0.1 ms + 1.5 x 10 ms; 2 between: 1 ms + 100 ms */
    assert_near(pg__step_on(&both, &pace, &load).exchange, 0.0004 + 0.015 + 0.001 + 0.1);
}

/* Nothing is gained where the cores that compute move the messages, too. */
static void cores_that_move_messages_do_not_compute(void **state)
{
    pg__layout host = hosts(1);
    const pg__load load = {.n = 2, .bytes = {0.2999e7, 0.0999e7}, .goes_along = 1};
    (void)state;
    host.per_host = 2;
    pg__parts_of_step s = pg__step_on(&host, &pace, &load);
    assert_near(s.shown, 0.1);
    host.by_cores = 1;
    s = pg__step_on(&host, &pace, &load);
    assert_near(s.exchange, 0.4);
    assert_near(s.shown, 0.4);
}

/* 0.1 s for the sums of a device's own threads, 3/4 of it for the first bucket. */
static void threads_sum_before_devices_do(void **state)
{
    const pg__layout two = hosts(2);
    const pg__load load = load_of(0.301, 0.101); /* 300 and 100 kB */
    pg__pace threads = pace;
    (void)state;
    threads.sum = 0.1;
    const pg__parts_of_step s = pg__step_on(&two, &threads, &load);
    assert_near(s.compute, 1.1);
    assert_near(s.shown, 0.101); /* begins at 1.1 */
}

static void paces_lie_on_a_line(void **state)
{
    pg__pace slow = pace;
    (void)state;
    pg__pace_stretch(&slow, 3);
    const pg__pace half = pg__pace_between(&pace, 10, &slow, 30, 20);
    assert_near(half.compute, 2);
    assert_near(half.ready[0], 0.4);
    assert_near(half.update, 0.1);
    assert_near(pg__pace_between(&pace, 10, &slow, 10, 10).compute, 1);
}

static void says_from_where_on_devices_do_not_pay(void **state)
{
    pg_plan_row rows[] = {{.n_devices = 1, .samples_per_second = 100},
                          {.n_devices = 2, .samples_per_second = 190},
                          {.n_devices = 4, .samples_per_second = 230},
                          {.n_devices = 6, .samples_per_second = 254}};
    (void)state;
    assert_int_equal(pg__pays_up_to(rows, 4), 0); /* 230 > 228, and 254 > 1.1 x 230 */
    rows[3].samples_per_second = 252;
    assert_int_equal(pg__pays_up_to(rows, 4), 4);
    rows[2].samples_per_second = 227;
    assert_int_equal(pg__pays_up_to(rows, 4), 2);
    assert_int_equal(pg__pays_up_to(rows, 1), 0);
}

/* ---- text ---- */

static void reads_what_people_write(void **state)
{
    pg_plan_opts o;
    pg_err err = {0};
    (void)state;
    assert_ok(pg_plan_read(&o,
                           "hosts=16,gpus=8,link=100Gbit,latency=5us,inner=300GB/s,"
                           "inner-latency=0.5ms,batch=1024,scale=weak,flops=60TFLOPS",
                           &err));
    assert_int_equal(o.hosts, 16);
    assert_int_equal(o.per_host, 8);
    assert_int_equal(o.gpus, 1);
    assert_int_equal(o.batch_size, 1024);
    assert_int_equal(o.weak, 1);
    assert_near(o.bandwidth, 12.5e9);
    assert_near(o.latency, 5e-6);
    assert_near(o.inner_bandwidth, 300e9);
    assert_near(o.inner_latency, 5e-4);
    assert_near(o.flops, 60e12);
    assert_ok(pg_plan_read(&o, "ranks=4,cores=2,speedup=1.5,link=1GiB", &err));
    assert_int_equal(o.per_host, 4);
    assert_int_equal(o.gpus, 0);
    assert_int_equal(o.hosts, 0);
    assert_int_equal(o.cores, 2);
    assert_near(o.speedup, 1.5);
    assert_near(o.bandwidth, 1073741824);
    assert_int_equal(o.measure, 0);
    assert_ok(pg_plan_read(&o, "hosts=2,link=measure,latency=5us", &err));
    assert_int_equal(o.measure, 1);
    assert_near(o.bandwidth, 0);
    assert_ok(pg_plan_read(&o, "", &err));
    assert_int_equal(o.per_host, 0);
}

static void refuses_what_nobody_can_mean(void **state)
{
    static const char *const bad[] = {"host=2",          "hosts",
                                      "hosts=",          "hosts=0",
                                      "hosts=2.5",       "hosts=-1",
                                      "hosts=1e9",       "hosts=0x10",
                                      "hosts=two",       "hosts=2,hosts=2",
                                      "gpus=2,cpus=2",   "cpus=2,ranks=2",
                                      "link=100",        "link=measured",
                                      "inner=measure",   "link=measure,link=1Gbit",
                                      "link=100Gb",      "link=100Mbits",
                                      "link=0Gbit",      "link=inf",
                                      "link=nanGbit",    "latency=5",
                                      "latency=5 us",    "latency=5minutes",
                                      "speedup=0",       "speedup=-2",
                                      "speedup=2x",      "flops=60X",
                                      "scale=strongly",  "speedup=2,flops=1T",
                                      "hosts=2,,gpus=2", "=2",
                                      "link=1e400Gbit",  "batch=1,5"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_plan_opts o = {.hosts = 77};
        pg_err err = {0};
        if (pg_plan_read(&o, bad[i], &err) != PG_E_ARG)
            fail_msg("%s was taken", bad[i]);
        assert_true(err.msg[0] != 0 && !strchr(err.msg, '\n'));
        assert_int_equal(o.hosts, 77);
    }
}

/* ---- plans ---- */

typedef struct set {
    pg_trainer *t;
    pg_data *data;
} set;

static set open_set(const char *golden, pg_train_opts o)
{
    char model[1024], data[1024];
    set s = {NULL, NULL};
    pg_err err = {0};
    snprintf(model, sizeof model, "%s/golden/%s/model.json", pg_testdata, golden);
    snprintf(data, sizeof data, "%s/golden/%s/data.npz", pg_testdata, golden);
    o.model = model;
    o.optimizer = o.optimizer ? o.optimizer : "adam";
    o.loss = o.loss ? o.loss : "categorical_crossentropy";
    if (pg_trainer_open(&s.t, &o, &err) != PG_OK || pg_data_open(&s.data, data, &err) != PG_OK)
        fail_msg("%s: %s", golden, err.msg);
    return s;
}

static void close_set(set *s)
{
    pg_data_close(s->data);
    pg_trainer_close(s->t);
}

static pg_plan plan_of(const set *s, const char *devices, const pg_fit_opts *fit)
{
    pg_plan p;
    pg_plan_opts o;
    pg_err err = {0};
    assert_ok(pg_plan_read(&o, devices, &err));
    if (pg_fit_plan(&p, s->t, s->data, fit, &o, &err) != PG_OK)
        fail_msg("%s: %s", devices, err.msg);
    return p;
}

/* What must hold whatever the times are. */
static void check_rows(const pg_plan *p, size_t n, size_t last, uint64_t first_rows)
{
    assert_int_equal(p->n_rows, n);
    assert_int_equal(p->rows[n - 1].n_devices, last);
    assert_int_equal(p->rows[0].rows, first_rows);
    assert_near(p->rows[0].efficiency, 1);
    assert_int_equal(p->rows[0].memory, p->rows[0].memory_sharded);
    assert_near(p->rows[0].exchange, 0);
    assert_near(p->rows[0].step_sharded, p->used.gpus ? 0 : p->rows[0].step);
    for (size_t i = 0; i < n; i++) {
        const pg_plan_row *r = &p->rows[i];
        assert_true(r->compute > 0 && r->update > 0 && r->rest >= 0 && r->shown >= 0);
        assert_near(r->step, r->compute + r->shown + r->update + r->rest);
        assert_true(r->memory > p->buckets[0]);
        assert_true(i == 0 || r->exchange > 0);
        assert_true(p->used.gpus ? r->step_sharded == 0 : r->step_sharded > 0);
        assert_true(i == 0 || (r->memory_sharded < r->memory));
        assert_true(i == 0 || (r->rows <= p->rows[i - 1].rows));
    }
}

static void plans_go_from_one_device_to_all(void **state)
{
    const pg_fit_opts fit = {.batch_size = 64};
    set s = open_set("mlp_digits", (pg_train_opts){.threads = 2});
    (void)state;
    pg_plan p = plan_of(&s, "cpus=2,hosts=3,link=1Gbit", &fit);
    check_rows(&p, 4, 6, 64);
    assert_int_equal(p.rows[3].rows, 14); /* 5 of 10, as multi_gpu_model cuts */
    assert_int_equal(p.rows[1].n_hosts, 1);
    assert_int_equal(p.rows[2].n_hosts, 2);
    assert_int_equal(p.threads, 1);
    p = plan_of(&s, "cpus=4,scale=weak", &fit);
    check_rows(&p, 3, 4, 64);
    assert_int_equal(p.rows[2].rows, 64);
    /* Behind what is said of the pace, which depends on the machine's other work. */
    assert_in_range(p.n_notes, 1, 2);
    assert_non_null(strstr(p.notes[p.n_notes - 1], "devices share"));
    p = plan_of(&s, "gpus=8,speedup=10,batch=6", &fit);
    check_rows(&p, 3, 4, 6); /* no row would be left for the rest */
    assert_true(p.n_notes >= 2);
    p = plan_of(&s, "gpus=1,flops=10T", &fit);
    assert_true(p.used.speedup > 0);
    close_set(&s);
}

/* Half of the gradients and 32 numbers for each bucket, where ranks can halve; the tree's copy. */
static void check_sums(const char *what, pg_train_opts o, int halves, int halves_of_shards,
                       int tree)
{
    const pg_fit_opts fit = {.batch_size = 64};
    o.threads = 2;
    set s = open_set("mlp_digits", o);
    const uint64_t all = s.t->vars.offsets[s.t->vars.n_params] * sizeof(float);
    const pg_plan p = plan_of(&s, "cpus=4,cores=4,scale=weak,speedup=2", &fit);
    const uint64_t half = all / 2 + p.n_buckets * 32 * sizeof(float);
    for (size_t n = 1; n <= 4; n++) {
        const int can = n == 2 || n == 4;
        const uint64_t whole = n > 1 && tree ? all : can && halves ? half : 0;
        const uint64_t parts = n > 1 && tree ? all : can && halves_of_shards ? half : 0;
        if (pg__sums_bytes(s.t, n, 0) != whole || pg__sums_bytes(s.t, n, 1) != parts)
            fail_msg("%s: %zu ranks", what, n);
    }
    const pg_plan_row *two = &p.rows[1];
    const uint64_t slots = 2 * all; /* Adam's */
    assert_int_equal(two->memory - two->memory_sharded,
                     slots / 2 + pg__sums_bytes(s.t, 2, 0) - pg__sums_bytes(s.t, 2, 1));
    close_set(&s);
}

static void memory_of_sums_is_counted(void **state)
{
    (void)state;
    check_sums("buckets", (pg_train_opts){0}, 1, 0, 0);
    check_sums("norms", (pg_train_opts){.optimizer = "adam:global_clipnorm=1"}, 1, 1, 0);
    check_sums("the tree", (pg_train_opts){.deterministic = 1}, 0, 0, 1);
}

static void one_process_measures_nothing(void **state)
{
    const pg_train_opts with = {.threads = 1};
    pg_plan_opts o = {.hosts = 2};
    pg_err err = {0};
    (void)state;
    assert_ok(pg_plan_measure(&o, &with, &err));
    assert_true(o.bandwidth == 0 && !o.link_measured && !o.inner_measured);
    o.measure = 1;
    assert_fails(PG_E_ARG, pg_plan_measure(&o, &with, &err), &err);
}

static void what_cannot_be_measured_must_be_given(void **state)
{
    static const char *const bad[] = {"gpus=2", "hosts=2,cpus=1", "cores=64,cpus=1",
                                      "gpus=2,cores=2,speedup=2", "hosts=1048576,cpus=2,link=1GB"};
    set s = open_set("mlp_digits", (pg_train_opts){.threads = 1});
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pg_plan_opts o;
        pg_plan p;
        pg_err err = {0};
        assert_ok(pg_plan_read(&o, bad[i], &err));
        assert_fails(PG_E_ARG, pg_fit_plan(&p, s.t, s.data, &(pg_fit_opts){0}, &o, &err), &err);
    }
    close_set(&s);
}

static void read_weights(const set *s, double *to, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < pg_trainer_n_weights(s->t); i++) {
        const pg_weight *w = pg_trainer_weight(s->t, i);
        const size_t each = (size_t)(w->n_bytes / sizeof(float));
        pg_err err = {0};
        assert_true(n + each <= most);
        assert_ok(pg_trainer_read(s->t, i, to + n, each, &err));
        n += each;
    }
}

/* Training goes on as if nothing had been: before a plan, and between two epochs. */
static void expect_training_unchanged_by_plan(const char *golden, size_t batch_size,
                                              pg_train_opts o)
{
    enum { MOST = 1 << 20 };
    const pg_fit_opts fit = {.batch_size = batch_size, .steps_per_epoch = 3};
    double *a = calloc(MOST, sizeof *a), *b = calloc(MOST, sizeof *b);
    pg_err err = {0};
    assert_non_null(a);
    assert_non_null(b);
    o.deterministic = 1;
    set plain = open_set(golden, o), planned = open_set(golden, o);
    for (int k = 0; k < 2; k++) {
        (void)plan_of(&planned, "cpus=2,hosts=2,link=1Gbit", &fit);
        assert_ok(pg_fit(plain.t, plain.data, &fit, NULL, &err));
        assert_ok(pg_fit(planned.t, planned.data, &fit, NULL, &err));
        read_weights(&plain, a, MOST);
        read_weights(&planned, b, MOST);
        assert_memory_equal(a, b, MOST * sizeof *a);
    }
    close_set(&plain);
    close_set(&planned);
    free(a);
    free(b);
}

static void a_plan_changes_nothing(void **state)
{
    (void)state;
    expect_training_unchanged_by_plan("mlp_digits", 32, (pg_train_opts){.threads = 2});
    expect_training_unchanged_by_plan("cnn_bn", 32, (pg_train_opts){.threads = 2});
    expect_training_unchanged_by_plan("cnn_bn", 32, (pg_train_opts){.threads = 1, .batch_norm = 1});
    expect_training_unchanged_by_plan("lstm_stateful", 8,
                                      (pg_train_opts){.threads = 2, .loss = "mse"});
}

static void more_than_all_is_no_efficiency(void **state)
{
    pg_plan_row rows[] = {{.efficiency = 1}, {.efficiency = 1.004}, {.efficiency = 0.7}};
    (void)state;
    assert_false(pg__exceeds_one(rows, 3));
    rows[1].efficiency = 1.006;
    assert_true(pg__exceeds_one(rows, 3));
    assert_false(pg__exceeds_one(rows, 1));
}

PG_TEST_MAIN(
    cmocka_unit_test(more_than_all_is_no_efficiency),
    cmocka_unit_test(sums_take_the_soonest_of_three_ways),
    cmocka_unit_test(shares_are_half_of_a_sum), cmocka_unit_test(shards_update_less_and_then_tell),
    cmocka_unit_test(one_device_waits_for_nobody),
    cmocka_unit_test(what_comes_last_cannot_be_hidden),
    cmocka_unit_test(all_is_hidden_where_nothing_comes_last),
    cmocka_unit_test(buckets_wait_for_the_link), cmocka_unit_test(small_sums_cost_their_messages),
    cmocka_unit_test(hosts_sum_within_and_then_between),
    cmocka_unit_test(cores_that_move_messages_do_not_compute),
    cmocka_unit_test(threads_sum_before_devices_do), cmocka_unit_test(paces_lie_on_a_line),
    cmocka_unit_test(says_from_where_on_devices_do_not_pay),
    cmocka_unit_test(reads_what_people_write), cmocka_unit_test(refuses_what_nobody_can_mean),
    cmocka_unit_test(plans_go_from_one_device_to_all), cmocka_unit_test(memory_of_sums_is_counted),
    cmocka_unit_test(one_process_measures_nothing),
    cmocka_unit_test(what_cannot_be_measured_must_be_given),
    cmocka_unit_test(a_plan_changes_nothing))
