/* cb_learning_rate_scheduler.c - Keras' LearningRateScheduler: a learning rate for each epoch, set
 * as it begins. Keras takes a function; here it is one of these, with epochs counted from 0 and lr
 * the optimizer's own rate:
 *
 *     schedule="epoch"     lr rate^epoch
 *     schedule="step"      lr rate^(epoch / epochs), whole steps: every so many epochs
 *     schedule="cosine"    from lr down to min_lr in `epochs` epochs (else to the end of the run)
 *     schedule="constant"  lr
 *     schedule="table"     of `file`: one rate a line, the last one holds on; '#' begins a comment
 *
 * warmup_epochs=N: in the first N epochs lr 1/N, 2/N, ...; the schedule begins after them. */
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/real.h"
#include "base/try.h"
#include "io/io.h"
#include "train/fit/callback.h"

typedef struct scheduler scheduler;
typedef double (*rule)(const scheduler *s, size_t epoch);

struct scheduler {
    rule at;
    double rate, min_lr;
    size_t epochs, warmup_epochs;
    double *table;
    size_t n_table;
    int verbose;
    double first; /* state: the optimizer's rate as training began */
};

/* ---- the rules; epoch: after the warm-up ---- */

static double by_epoch(const scheduler *s, size_t epoch)
{
    return s->first * pow(s->rate, (double)epoch);
}

static double by_steps(const scheduler *s, size_t epoch)
{
    return s->first * pow(s->rate, (double)(epoch / s->epochs));
}

static double by_cosine(const scheduler *s, size_t epoch)
{
    const double done = epoch < s->epochs ? (double)epoch / (double)s->epochs : 1;
    return s->min_lr + (s->first - s->min_lr) * 0.5 * (1 + cos(3.14159265358979323846 * done));
}

static double as_it_is(const scheduler *s, size_t epoch)
{
    (void)epoch;
    return s->first;
}

static double by_table(const scheduler *s, size_t epoch)
{
    return s->table[epoch < s->n_table ? epoch : s->n_table - 1];
}

static double rate_at(const scheduler *s, size_t epoch)
{
    if (epoch < s->warmup_epochs)
        return s->first * (double)(epoch + 1) / (double)s->warmup_epochs;
    return s->at(s, epoch - s->warmup_epochs);
}

/* ---- parameters ---- */

static pg_status read_line(scheduler *s, const char *line, size_t n, size_t number, pg_err *err)
{
    const char *hash = memchr(line, '#', n);
    double v = 0;
    n = hash ? (size_t)(hash - line) : n;
    for (; n > 0 && strchr(" \t\r", line[n - 1]); n--)
        ;
    for (; n > 0 && strchr(" \t", *line); n--)
        line++;
    if (n == 0)
        return PG_OK;
    if (!pg__real_read(&v, line, n) || !(v >= 0) || isinf(v))
        return pg_fail(err, PG_E_FORMAT, "line %zu: \"%.*s\" is not a learning rate", number,
                       n < 40 ? (int)n : 40, line);
    s->table[s->n_table++] = v;
    return PG_OK;
}

static pg_status read_lines(scheduler *s, const char *text, size_t n, pg_err *err)
{
    size_t number = 1, at = 0;
    pg_status st = PG_OK;
    s->table =
        pg__mem_array(n / 2 + 1, sizeof *s->table); /* a line has at least a digit and its end */
    if (!s->table)
        return pg__nomem(err);
    for (; at < n; number++) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t len = end ? (size_t)(end - text) - at : n - at;
        PG_TRY(read_line(s, text + at, len, number, err));
        at += len + 1;
    }
    if (s->n_table == 0)
        PG_FAIL(PG_E_FORMAT, "no learning rates in it");
done:
    return st;
}

static pg_status read_table(scheduler *s, const char *path, pg_err *err)
{
    pg__io *io = NULL;
    char *text = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__io_open(&io, path, err));
    const uint64_t n = pg__io_size(io);
    if (n > PG_LIMIT_RATES_BYTES)
        PG_FAIL(PG_E_LIMIT, "%s: %llu bytes are too many for a table of learning rates",
                PG_SHOW(path), (unsigned long long)n);
    text = pg__mem_array((size_t)n, 1);
    if (!text)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    st = read_lines(s, text, (size_t)n, err);
    if (st != PG_OK && st != PG_E_NOMEM)
        pg_err_prefix(err, PG_SHOW(path));
done:
    pg__mem_free(text);
    pg__io_close(io);
    return st;
}

static pg_status needs(const char *schedule, const char *key, pg_err *err)
{
    return pg_fail(err, PG_E_ARG, "LearningRateScheduler: schedule \"%s\" needs %s", schedule, key);
}

/* Reads only the keys of the given schedule: others are refused as unknown. */
static pg_status read_rule(scheduler *s, pg__fit *f, const char *name, pg__settings *from,
                           pg_err *err)
{
    const char *file = NULL;
    pg_status st = PG_OK;
    s->rate = NAN;
    if (s->at == by_epoch || s->at == by_steps) {
        PG_TRY(pg__settings_real(from, "rate", &s->rate, err));
        if (!(s->rate >= 0) || isinf(s->rate))
            PG_TRY(needs(name, "rate, a factor from 0 on", err));
    }
    if (s->at == by_steps || s->at == by_cosine) {
        const size_t all = f->opts->epochs ? f->opts->epochs : 1;
        s->epochs = s->at == by_steps ? 0 : all > s->warmup_epochs ? all - s->warmup_epochs : 1;
        PG_TRY(pg__settings_count(from, "epochs", &s->epochs, err));
        if (s->epochs == 0)
            PG_TRY(needs(name, "epochs, their number", err));
    }
    if (s->at == by_cosine)
        PG_TRY(pg__settings_real(from, "min_lr", &s->min_lr, err));
    if (s->at != by_table)
        goto done;
    PG_TRY(pg__settings_text(from, "file", &file, err));
    if (!file)
        PG_TRY(needs(name, "file, one rate a line", err));
    PG_TRY(read_table(s, file, err));
done:
    return st;
}

static const struct {
    const char *name;
    rule at;
} rules[] = {{"epoch", by_epoch},   {"exponential", by_epoch}, {"step", by_steps},
             {"cosine", by_cosine}, {"constant", as_it_is},    {"table", by_table}};

static pg_status open(void *self, pg__fit *f, pg__settings *from, pg_err *err)
{
    scheduler *s = self;
    const char *name = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__settings_text(from, "schedule", &name, err));
    PG_TRY(pg__settings_flag(from, "verbose", &s->verbose, err));
    PG_TRY(pg__settings_count(from, "warmup_epochs", &s->warmup_epochs, err));
    for (size_t i = 0; name && i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, name) == 0)
            s->at = rules[i].at;
    if (!s->at)
        PG_FAIL(PG_E_ARG,
                "LearningRateScheduler: schedule is %s (epoch, step, cosine, constant, table)",
                name ? PG_SHOW(name) : "not given");
    PG_TRY(read_rule(s, f, name, from, err));
    if (f->t->compiled.optimizer.schedule)
        PG_FAIL(PG_E_ARG, "LearningRateScheduler: the learning rate is already set by %s",
                pg__schedule_name(f->t->compiled.optimizer.schedule));
done:
    return st;
}

/* ---- epochs ---- */

static pg_status train_begin(void *self, pg__fit *f, pg_err *err)
{
    scheduler *s = self;
    (void)err;
    if (!f->resumed)
        s->first = pg__fit_rate(f);
    return PG_OK;
}

static pg_status epoch_begin(void *self, pg__fit *f, pg_err *err)
{
    const scheduler *s = self;
    const double rate = rate_at(s, f->epoch);
    pg_status st = PG_OK;
    PG_TRY(pg__fit_set_rate(f, rate, err));
    if (s->verbose)
        st = pg__fit_event(f, PG_EVENT_RATE, NULL, err, "learning rate %s", PG_REAL32(rate));
done:
    return st;
}

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    scheduler *s = self;
    (void)f;
    pg__archive_real(a, &s->first);
}

static void close(void *self, pg__fit *f)
{
    scheduler *s = self;
    (void)f;
    pg__mem_free(s->table);
}

const pg__cb_type pg__cb_learning_rate_scheduler = {.name = "LearningRateScheduler",
                                                    .n_bytes = sizeof(scheduler),
                                                    .open = open,
                                                    .train_begin = train_begin,
                                                    .epoch_begin = epoch_begin,
                                                    .keep = keep,
                                                    .close = close};
