/* checkpoint_open.c - ModelCheckpoint's parameters, checked before hours of training: unknown
 * monitors and keys, a format that cannot hold the model, a folder that cannot be written to. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/try.h"
#include "pg/shard.h"
#include "train/fit/checkpoint_impl.h"

/* ---- parameters ---- */

static pg_status one_of(int *out, const char *what, const char *word, const char *const names[3],
                        pg_err *err)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = i;
            return PG_OK;
        }
    return pg_fail(err, PG_E_ARG, "ModelCheckpoint: %s is \"%s\", not %s, %s or %s", what,
                   PG_SHOW(word), names[0], names[1], names[2]);
}

static pg_status read_words(pg__checkpoints *c, pg__settings *s, pg_err *err)
{
    static const char *const modes[] = {"auto", "min", "max"}, *const proofs[] = {"best", "all",
                                                                                  "none"};
    const char *path = NULL, *monitor = "val_loss", *mode = "auto", *verify = "best", *size = NULL;
    int which = 0;
    pg_status st = PG_OK;
    PG_TRY(pg__settings_text(s, "filepath", &path, err));
    PG_TRY(pg__settings_text(s, "monitor", &monitor, err));
    PG_TRY(pg__settings_text(s, "mode", &mode, err));
    PG_TRY(pg__settings_text(s, "verify", &verify, err));
    PG_TRY(pg__settings_text(s, "max_shard_size", &size, err));
    if (!path || *path == '\0')
        PG_FAIL(PG_E_ARG, "ModelCheckpoint: no filepath given");
    PG_TRY(one_of(&which, "mode", mode, modes, err));
    PG_TRY(one_of(&c->verify, "verify", verify, proofs, err));
    if (size && (st = pg_shard_size(&c->max_shard_bytes, size, err)) != PG_OK) {
        pg_err_prefix(err, "ModelCheckpoint: max_shard_size");
        goto done;
    }
    c->is_guessed = which == 0;
    c->wants_max = which == 2 ||
                   (which == 0 && (strstr(monitor, "acc") || strncmp(monitor, "fmeasure", 8) == 0));
    c->pattern = pg__mem_strdup(path);
    c->monitor = pg__mem_strdup(monitor);
    if (!c->pattern || !c->monitor)
        PG_TRY(pg__nomem(err));
done:
    return st;
}

static pg_status read_settings(pg__checkpoints *c, pg__settings *s, pg_err *err)
{
    pg_status st = PG_OK;
    c->period = 1;
    PG_TRY(read_words(c, s, err));
    PG_TRY(pg__settings_count(s, "verbose", &c->verbose, err));
    PG_TRY(pg__settings_flag(s, "save_best_only", &c->best_only, err));
    PG_TRY(pg__settings_flag(s, "save_weights_only", &c->weights_only, err));
    PG_TRY(pg__settings_freq(s, "save_freq", &c->every, err));
    PG_TRY(pg__settings_count(s, "period", &c->period, err));
    PG_TRY(pg__settings_count(s, "keep", &c->keep, err));
    c->best = c->wants_max ? -INFINITY : INFINITY;
    PG_TRY(pg__settings_real(s, "initial_value_threshold", &c->best, err));
done:
    return st;
}

/* ---- names ---- */

/* Within an epoch there are only the running means of training. */
static pg_status list_keys(pg__checkpoints *c, const pg__fit *f, pg_err *err)
{
    c->keys = pg__mem_array(f->n_names + 2, sizeof *c->keys);
    if (!c->keys)
        return pg__nomem(err);
    c->keys[c->n_keys++] = (pg__pattern_key){"epoch", {PG_SPEC_INT, 1}, 0};
    if (c->every)
        c->keys[c->n_keys++] = (pg__pattern_key){"batch", {PG_SPEC_INT, 1}, 0};
    for (size_t i = 0; i < f->n_names; i++) {
        const char *name = f->names[i];
        const int is_rate = strcmp(name, f->rate_name) == 0;
        if (c->every && (is_rate || strncmp(name, "val_", 4) == 0))
            continue;
        c->keys[c->n_keys++] = (pg__pattern_key){
            name, {is_rate && strcmp(name, "lr") == 0 ? PG_SPEC_FLOAT32 : PG_SPEC_FLOAT, 1}, 0};
    }
    return PG_OK;
}

pg_status pg__checkpoints_name(pg__checkpoints *c, pg__str *out, const char **absent, pg_err *err)
{
    const pg_status st = pg__pattern_fill(out, absent, c->pattern, c->keys, c->n_keys, err);
    if (st == PG_E_ARG)
        pg_err_prefix(err, "ModelCheckpoint");
    return st;
}

/* ---- before training ---- */

static pg_status check_monitor(pg__checkpoints *c, const pg__fit *f, int is_given, pg_err *err)
{
    size_t i = 0;
    while (i < c->n_keys && strcmp(c->keys[i].name, c->monitor) != 0)
        i++;
    c->has_monitor = i < c->n_keys;
    if (c->has_monitor || !(c->best_only || is_given))
        return PG_OK;
    if (pg__fit_check_monitor(f, "ModelCheckpoint", c->monitor, err) != PG_OK)
        return PG_E_ARG;
    return pg_fail(
        err, PG_E_ARG,
        "ModelCheckpoint: %s is known after epochs only, but save_freq=%zu saves after batches",
        c->monitor, c->every);
}

static int ends_with(const char *s, const char *suffix)
{
    const size_t n = strlen(s), k = strlen(suffix);
    return n >= k && strcasecmp(s + n - k, suffix) == 0;
}

/* The nearest existing folder must be writable. */
static pg_status check_place(pg__checkpoints *c, const pg__fit *f, char *path, pg_err *err)
{
    pg__save_order order = {.force = 1, .full = !c->weights_only, .dry_run = 1};
    pg__saved saved = {0};
    pg__str sample = {0};
    struct stat sb;
    pg_status st = PG_OK;
    const char *slash = strrchr(path, '/');
    pg__str folder = {0};
    if (slash)
        PG_TRY(pg__str_add(&folder, path, (size_t)(slash - path) + (slash == path), err));
    while (folder.n > 0 && stat(folder.s, &sb) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        const char *up = strrchr(folder.s, '/');
        folder.n = up ? (size_t)(up - folder.s) + (up == folder.s) : 0;
        folder.s[folder.n] = 0;
    }
    PG_TRY(pg__str_printf(&sample, err, "%s%s%s", folder.n ? folder.s : "", folder.n ? "/" : "",
                          slash ? slash + 1 : path));
    order.path = sample.s;
    order.max_shard_bytes = 0; /* a valid file name is a valid folder name */
    PG_TRY(pg__save(&saved, f->t, &order, err));
done:
    pg__saved_fini(&saved);
    pg__str_fini(&folder);
    pg__str_fini(&sample);
    return st;
}

static pg_status check_file(pg__checkpoints *c, const pg__fit *f, pg_err *err)
{
    pg__str name = {0};
    const char *absent = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__checkpoints_name(c, &name, &absent, err));
    if (c->weights_only && ends_with(name.s, ".keras")) {
        (void)pg_fail(err, PG_E_ARG, "%s: holds the whole model, and save_weights_only is set",
                      PG_SHOW(c->pattern));
        pg_err_hint(err, "a name that ends in .weights.h5");
        st = PG_E_ARG;
        goto done;
    }
    PG_TRY(check_place(c, f, name.s, err));
done:
    pg__str_fini(&name);
    return st;
}

pg_status pg__checkpoints_open(pg__checkpoints *c, pg__fit *f, pg__settings *s, pg_err *err)
{
    pg_status st = PG_OK;
    int is_given = 0;
    PG_TRY(read_settings(c, s, err));
    PG_TRY(pg__settings_has(s, "monitor", &is_given, err));
    PG_TRY(list_keys(c, f, err));
    PG_TRY(check_monitor(c, f, is_given, err));
    PG_TRY(check_file(c, f, err));
    const uint64_t n = pg__snapshot_bytes(f->t, !c->weights_only);
    f->n_copied = n > f->n_copied ? n : f->n_copied;
done:
    return st;
}
