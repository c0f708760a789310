/* resume.h - resumes a run where it stopped: one file, written between two steps, holds everything
 * that its next steps depend on. It does not hold what follows from options, only the options
 * themselves: another model, optimizer, loss, or other data are refused by name. Devices and their
 * number, the last epoch and the names of outputs may differ. */
#ifndef PG_TRAIN_FIT_RESUME_H
#define PG_TRAIN_FIT_RESUME_H

#include "train/fit/callback.h"
#include "train/model/model.h"

typedef struct pg__resume {
    pg__fit *fit;
    pg__str facts; /* "name\tvalue\n": what must be the same */
    void *run;
    void (*keep)(void *run, pg__archive *a); /* writes or reads the position of the run */
    unsigned char output[PG_OUTPUT_BYTES];   /* the file that may be replaced */
    double saved;                            /* time of the last save on pg__now()'s clock */
    int is_own;                              /* the file is this run's */
    uint32_t mark;                           /* checksum of what was restored */
    char *kind;                              /* kind of device that made the state, or NULL */
    int has_saved, failed;
    pg_err why; /* the last failure */
} pg__resume;

/* Call it before anything is restored: it takes the trainer's current settings for those of the
 * options. */
pg_status pg__resume_open(pg__resume *r, pg__fit *f, pg_err *err);
void pg__resume_close(pg__resume *r);

typedef enum pg__resume_when {
    PG_RESUME_BETWEEN, /* two steps: the writer has it, nothing waits */
    PG_RESUME_AT_STOP, /* returns with it on disk, or r->failed */
    PG_RESUME_AT_END   /* the same, for a finished run */
} pg__resume_when;
pg_status pg__resume_save(pg__resume *r, pg__resume_when when, pg_err *err);

/* Should it be saved now, on request or because enough time has passed? */
int pg__resume_is_due(const pg__resume *r);

/* Restores the state from the file or, if that is damaged, from the previous one (a warning says
 * so). *found: 0 if there is none and none is required. If this fails, the run is over. */
pg_status pg__resume_load(pg__resume *r, int *found, pg_err *err);

/* Removes both files. */
void pg__resume_remove(const pg__resume *r);

#endif
