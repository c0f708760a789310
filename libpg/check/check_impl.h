/* check_impl.h - one run of pg_check_file(): check.c drives it, larger checks have files of their
 * own. */
#ifndef PG_CHECK_CHECK_IMPL_H
#define PG_CHECK_CHECK_IMPL_H

#include "pg/check.h"
#include "wrap/compare/view.h"

typedef struct pg__checking {
    const char *path;
    const pg_check_opts *o;
    pg__view view;
    pg__graph *given;       /* the description of opts.model, or NULL */
    int repairable;         /* the structure check fails, but pgunwrap --like may help */
    pg_check_report report; /* details and notes by pg__check_detail(), pg__check_note() */
} pg__checking;

/* Appends a check; details that follow belong to it. */
pg_status pg__check_add(pg__checking *c, const char *name, int ok, pg_err *err, const char *fmt,
                        ...) PG_PRINTF(5, 6);
pg_status pg__check_detail(pg__checking *c, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
pg_status pg__check_note(pg__checking *c, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);

/* check_structure.c: compares with the given model, or the file's own description, or nothing. */
pg_status pg__check_structure(pg__checking *c, pg_err *err);

/* check_values.c: every element of the model's tensors. */
pg_status pg__check_values(pg__checking *c, pg_err *err);

/* check_sums.c: SHA-256 against opts.sha256; of a split model, CRC-32 against its manifest. */
pg_status pg__check_sum(pg__checking *c, pg_err *err);
pg_status pg__check_shards(pg__checking *c, pg_err *err);
/* For a file that could not be opened: *is_split is 1 if it is a split model with missing or
 * damaged files, all of which are then listed. */
pg_status pg__check_faults(pg__checking *c, int *is_split, pg_err *err);

/* check_predict.c: predicts for opts.input and compares with opts.expect. */
pg_status pg__check_predictions(pg__checking *c, pg_err *err);

#endif
