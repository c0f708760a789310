/* checkpoint_impl.h - what cb_model_checkpoint.c and checkpoint_open.c share. */
#ifndef PG_TRAIN_FIT_CHECKPOINT_IMPL_H
#define PG_TRAIN_FIT_CHECKPOINT_IMPL_H

#include "train/fit/callback.h"
#include "train/fit/checkpoint.h"
#include "train/rules/rules.h"

enum { PG_VERIFY_BEST, PG_VERIFY_ALL, PG_VERIFY_NONE };

typedef struct pg__checkpoints {
    char *pattern, *monitor;
    size_t verbose, every, period, keep; /* every: batches, 0: epochs */
    int best_only, weights_only, wants_max, verify;
    int is_guessed;  /* mode is auto */
    int has_monitor; /* such a log can exist */
    uint64_t max_shard_bytes;
    pg__pattern_key *keys; /* epoch, batch (with save_freq), logs */
    size_t n_keys;

    double best;
    size_t n_epochs, n_batches; /* since the last attempt */
    pg__kept_list files;
    char *pending; /* the file being written, or NULL */
    int pending_is_best;
    double best_before;    /* c->best before it */
    int reported_skipping; /* reported once; so are failures of links */
    pg__strs reported;
} pg__checkpoints;

/* Reads the parameters; checks monitor, name and place. */
pg_status pg__checkpoints_open(pg__checkpoints *c, pg__fit *f, pg__settings *s, pg_err *err);

/* The name of the next file by c->keys; *absent: a log in the pattern that has no value. */
pg_status pg__checkpoints_name(pg__checkpoints *c, pg__str *out, const char **absent, pg_err *err);

#endif
