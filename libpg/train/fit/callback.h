/* callback.h - what happens around the steps of a run. A callback is a row of callbacks.def and a
 * file cb_NAME.c, which gives `const pg__cb_type pg__cb_NAME`. They run in the order in which they
 * were asked for, behind the program's own pg_callback, which only at the end of the training comes
 * last. Each has memory of its own (`self`, zeroed), from which `keep` takes what a resumed run
 * gets back. */
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
    const char *data_path;    /* as it was given */
    const char *const *names; /* of an epoch's logs: losses and metrics, the same with "val_", and
                                 the learning rate's last */
    size_t n_names;
    const char *rate_name;  /* "lr", for Keras 3 "learning_rate" */
    size_t epoch, batch;    /* in hand, from 0 */
    int stops;              /* after this epoch */
    int terminates_on_nan;  /* at once, where a loss is no number */
    uint32_t data_crc;      /* of the first and last training rows, where there is a resume_file */
    char *resume_file;      /* where the state of the run is kept, or NULL */
    int resume;             /* as pg_fit_opts.resume */
    int resume_ends;        /* removed when the training has come to its end */
    double resume_every;    /* seconds; 0: only when somebody asks */
    int keeps_state;        /* somebody asks: to be saved once all callbacks have had their turn */
    pg__snapshot *snapshot; /* of this moment between two steps, or NULL */
    int snapshot_has_slots;
    int resumed;        /* train_begin: what was kept has been given back */
    size_t first_epoch; /* that this process runs, and whether it begins within it */
    pg__writer
        *writer;       /* of all files of the run; jobs that are done are told of after each step */
    uint64_t n_copied; /* bytes of the largest snapshot that will be taken: open() raises it */
    uint64_t n_held;   /* of those that are kept beside it: open() adds to it */
    const pg_callback *cb; /* the program's own, or NULL */
    struct pg__cb *calls;  /* the others, in their order */
    size_t n_calls;
    pg_status missing; /* not PG_OK: the run goes on to its end, and then fails with this: a file
                          that was asked for could not be written */
    pg_err why;
} pg__fit;

typedef struct pg__cb_type {
    const char *name; /* Keras' class name */
    size_t n_bytes;   /* of self */
    int writes;       /* it writes files and decides nothing: only rank 0 has a turn */
    /* Before anything is trained: parameters, and whether their monitors exist; writes nothing. */
    pg_status (*open)(void *self, pg__fit *f, pg__settings *s, pg_err *err);
    /* All may be NULL. A status other than PG_OK ends the run: only for what cannot be gone on
     * with. */
    pg_status (*train_begin)(void *self, pg__fit *f, pg_err *err);
    pg_status (*epoch_begin)(void *self, pg__fit *f, pg_err *err);
    pg_status (*batch_end)(void *self, pg__fit *f, const pg_logs *running, pg_err *err);
    pg_status (*test_begin)(void *self, pg__fit *f, pg_err *err); /* of an epoch's validation */
    pg_status (*test_end)(void *self, pg__fit *f, pg_err *err);
    pg_status (*epoch_end)(void *self, pg__fit *f, const pg_logs *logs, pg_err *err);
    pg_status (*train_end)(void *self, pg__fit *f, pg_err *err); /* not after an error */
    /* Something that a callback, itself too, or the run told of. */
    pg_status (*event)(void *self, pg__fit *f, const pg_event *e, pg_err *err);
    void (*keep)(void *self, pg__fit *f, pg__archive *a); /* state: written or read */
    /* What was given back, in few words, for people: "best val_loss 0.0871 (epoch 6)". */
    pg_status (*recall)(const void *self, pg__str *out, pg_err *err);
    void (*close)(void *self, pg__fit *f); /* also where open failed */
} pg__cb_type;

/* One that was asked for. */
typedef struct pg__cb {
    const pg__cb_type *type;
    void *self;
} pg__cb;

/* What opts->callbacks asks for; and what is asked of all of them in turn (train_begin,
 * epoch_begin,
 * ...), the first failure ends it. */
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

/* Is there, ever, a log of that name? PG_E_ARG names the known ones and the nearest. `what`: who
 * asks. */
pg_status pg__fit_check_monitor(const pg__fit *f, const char *what, const char *monitor,
                                pg_err *err);

/* A value of the logs; 0: this epoch has none (no validation). */
int pg__logs_get(const pg_logs *logs, const char *name, double *out);

/* The learning rate as set; setting rounds to float32, as Keras' variable does. Refuses (PG_E_ARG)
 * where a schedule counts it. */
double pg__fit_rate(const pg__fit *f);
pg_status pg__fit_set_rate(pg__fit *f, double rate, pg_err *err);

/* The trainer as it stands now; all who ask between two steps share one. Dropped by the caller. */
pg_status pg__fit_snapshot(pg__fit *f, int with_slots, pg__snapshot **out, pg_err *err);

/* Before a callback changes weights or slots: what others saved so far is of before, what they save
 * from now on is not. Of a job with divided slots all ranks ask. */
pg_status pg__fit_changes(pg__fit *f, pg_err *err);

/* Tells the program of something: text is one line, file may be NULL. */
pg_status pg__fit_tell(pg__fit *f, pg_event_kind kind, const char *file, pg_err *err,
                       const char *fmt, ...) PG_PRINTF(5, 6);

#endif
