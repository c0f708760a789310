/* callback.h - what happens around the steps of a run. A callback is a row of callbacks.def and a
 * file cb_NAME.c, which gives `const pg__cb_type pg__cb_NAME`. They run in the order requested,
 * after the program's own pg_callback; only at the end of training that one comes last. Each has
 * memory of its own (`self`, zeroed); `keep` saves and restores the part that a resumed run needs.
 */
#ifndef PG_TRAIN_FIT_CALLBACK_H
#define PG_TRAIN_FIT_CALLBACK_H

#include "train/fit/archive.h"
#include "train/fit/writer.h"
#include "train/rules/rules.h"
#include "train/step/step.h"

/* A run as callbacks see it. */
typedef struct pg__fit {
    pg_trainer *t;
    const pg_fit_opts *opts;
    const pg_run *run;        /* from train_begin on */
    const char *data_path;    /* as given */
    const char *const *names; /* of an epoch's logs: losses and metrics, the same with "val_", last
                                 the learning rate */
    size_t n_names;
    const char *rate_name;  /* "lr", for Keras 3 "learning_rate" */
    size_t epoch, batch;    /* the current ones, from 0 */
    int stops;              /* after this epoch */
    int terminates_on_nan;  /* as soon as a loss is NaN or infinite */
    uint32_t data_crc;      /* of the first and last training rows, if there is a resume_file */
    char *resume_file;      /* file for the state of the run, or NULL */
    int resume;             /* as pg_fit_opts.resume */
    int resume_ends;        /* removed when training is complete */
    double resume_every;    /* seconds; 0: only on request */
    int keeps_state;        /* a request: save it once all callbacks have had their turn */
    pg__snapshot *snapshot; /* of this point between two steps, or NULL */
    int snapshot_has_slots;
    int resumed;           /* at train_begin: state has been restored */
    size_t first_epoch;    /* that this process runs, and whether it starts within that epoch */
    pg__writer *writer;    /* of all files of the run; finished jobs are reported after each step */
    uint64_t n_copied;     /* bytes of the largest snapshot to be taken: open() raises it */
    uint64_t n_held;       /* bytes of snapshots kept in addition: open() adds to it */
    const pg_callback *cb; /* the program's own, or NULL */
    struct pg__cb *calls;  /* the others, in order */
    size_t n_calls;
    pg_status missing; /* not PG_OK: a requested file could not be written; the run continues to its
                          end and then fails with this */
    pg_err why;
} pg__fit;

typedef struct pg__cb_type {
    const char *name; /* Keras' class name */
    size_t n_bytes;   /* of self */
    int writes;       /* it writes files and decides nothing: only rank 0 calls it */
    /* Before training: reads parameters and checks that their monitors exist; writes nothing. */
    pg_status (*open)(void *self, pg__fit *f, pg__settings *s, pg_err *err);
    /* All may be NULL. A status other than PG_OK ends the run: only for errors that training cannot
     * survive. */
    pg_status (*train_begin)(void *self, pg__fit *f, pg_err *err);
    pg_status (*epoch_begin)(void *self, pg__fit *f, pg_err *err);
    pg_status (*batch_end)(void *self, pg__fit *f, const pg_logs *running, pg_err *err);
    pg_status (*test_begin)(void *self, pg__fit *f, pg_err *err); /* of an epoch's validation */
    pg_status (*test_end)(void *self, pg__fit *f, pg_err *err);
    pg_status (*epoch_end)(void *self, pg__fit *f, const pg_logs *logs, pg_err *err);
    pg_status (*train_end)(void *self, pg__fit *f, pg_err *err); /* not after an error */
    /* An event reported by a callback (also this one) or by the run. */
    pg_status (*event)(void *self, pg__fit *f, const pg_event *e, pg_err *err);
    void (*keep)(void *self, pg__fit *f, pg__archive *a); /* writes or reads its state */
    /* Describes the restored state in few words: "best val_loss 0.0871 (epoch 6)". */
    pg_status (*recall)(const void *self, pg__str *out, pg_err *err);
    void (*close)(void *self, pg__fit *f); /* also if open failed */
} pg__cb_type;

/* A requested callback. */
typedef struct pg__cb {
    const pg__cb_type *type;
    void *self;
} pg__cb;

/* Opens the callbacks of opts->callbacks; the other functions call all of them in turn
 * (train_begin, epoch_begin, ...) and stop at the first failure. */
pg_status pg__calls_open(pg__fit *f, pg_err *err);
pg_status pg__calls_train_begin(pg__fit *f, pg_err *err);
pg_status pg__calls_epoch_begin(pg__fit *f, pg_err *err);
pg_status pg__calls_batch_end(pg__fit *f, const pg_logs *running, pg_err *err);
pg_status pg__calls_test_begin(pg__fit *f, pg_err *err);
pg_status pg__calls_test_end(pg__fit *f, pg_err *err);
pg_status pg__calls_epoch_end(pg__fit *f, const pg_logs *logs, pg_err *err);
pg_status pg__calls_train_end(pg__fit *f, pg_err *err);
void pg__calls_keep(pg__fit *f, pg__archive *a);
pg_status pg__calls_recall(const pg__fit *f, pg__str *out, pg_err *err); /* "; " before each */
void pg__calls_close(pg__fit *f);

/* Can there be a log of that name? PG_E_ARG names the known ones and the nearest. `what`: the
 * caller, for the message. */
pg_status pg__fit_check_monitor(const pg__fit *f, const char *what, const char *monitor,
                                pg_err *err);

/* A value of the logs; 0: this epoch has none (no validation). */
int pg__logs_get(const pg_logs *logs, const char *name, double *out);

/* The learning rate as set; setting rounds to float32, as Keras' variable does. PG_E_ARG: a
 * schedule determines it. */
double pg__fit_rate(const pg__fit *f);
pg_status pg__fit_set_rate(pg__fit *f, double rate, pg_err *err);

/* A snapshot of the trainer; all callers between two steps share one. The caller drops it. */
pg_status pg__fit_snapshot(pg__fit *f, int with_slots, pg__snapshot **out, pg_err *err);

/* To be called before a callback changes weights or slots: earlier saves must hold the old values,
 * later ones the new. With sharded slots all ranks must call it. */
pg_status pg__fit_changes(pg__fit *f, pg_err *err);

/* Reports an event to the program: the text is one line, file may be NULL. */
pg_status pg__fit_event(pg__fit *f, pg_event_kind kind, const char *file, pg_err *err,
                        const char *fmt, ...) PG_PRINTF(5, 6);

#endif
