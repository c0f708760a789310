/* resume.h - a run that goes on where it was left: everything that its next steps depend on is in
 * one file, written between two steps. What follows from options is not in it: the file says which
 * ones it was made with, and another model, optimizer, loss, or other data are refused by name.
 * Devices and their number, the last epoch and the names of outputs may differ. */
#ifndef PG_TRAIN_FIT_RESUME_H
#define PG_TRAIN_FIT_RESUME_H

#include "train/fit/callback.h"
#include "train/model/model.h"

typedef struct pg__resume {
    pg__fit *fit;
    pg__str facts; /* "name\tvalue\n": what must be the same */
    void *run;
    void (*keep)(void *run, pg__archive *a); /* where the run is: written or read */
    unsigned char output[PG__OUTPUT_BYTES];  /* the file that may be replaced */
    double saved;                            /* when, on pg__now()'s clock */
    int is_own;                              /* the file is this run's */
    uint32_t mark;                           /* of what was restored: another file has another */
    char *kind;                              /* of device that the state was made on, or NULL */
    int has_saved, failed;
    pg_err why; /* of the last failure */
} pg__resume;

/* To be called before anything is restored: what the trainer is now counts as given by the options.
 * what: the rows and batches of the run. */
pg_status pg__resume_open(pg__resume *r, pg__fit *f, pg_err *err);
void pg__resume_close(pg__resume *r);

typedef enum pg__resume_when {
    PG__RESUME_BETWEEN, /* two steps: the writer has it, nobody waits */
    PG__RESUME_AT_STOP, /* it is on disk, or r->failed */
    PG__RESUME_AT_END   /* the same, of a run that is over */
} pg__resume_when;
pg_status pg__resume_save(pg__resume *r, pg__resume_when when, pg_err *err);

/* Should it be saved now, because somebody asked for it or enough time has gone? */
int pg__resume_is_due(const pg__resume *r);

/* Restores the state from the file, from the one before where that is damaged (a note says so).
 * *found: 0 where there is none and none is needed. Where this fails the run is over. */
pg_status pg__resume_load(pg__resume *r, int *found, pg_err *err);

/* Removes both files. */
void pg__resume_remove(const pg__resume *r);

#endif
