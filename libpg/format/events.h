/* events.h - TensorBoard's event files: scalars, histograms and a model's graph by step.
 *
 *     pg__append log = {0};
 *     PG_TRY(pg__events_create(&log, "logs/train", now, err));
 *     PG_TRY(pg__events_scalar(&log, &(pg__event){now, 0, "epoch_loss"}, 0.5F, err));
 *     PG_TRY(pg__append_flush(&log, err));
 *
 * io/append.h collects records, writes them, and cuts a file back. */
#ifndef PG_FORMAT_EVENTS_H
#define PG_FORMAT_EVENTS_H

#include "io/append.h"

#define PG_EVENT_BUCKETS 30

typedef struct pg__event {
    double time; /* seconds since 1970 */
    uint64_t step;
    const char *tag;
} pg__event;

/* Creates the folder, and in it a new file with the name that TensorFlow would choose. Writes its
 * first record, then the records that were pending. PG_E_IO. */
pg_status pg__events_create(pg__append *to, const char *folder, double time, pg_err *err);

/* Appends a record. PG_E_NOMEM: nothing was appended. */
pg_status pg__events_scalar(pg__append *to, const pg__event *e, float value, pg_err *err);

/* rows: left edge, right edge, count. */
pg_status pg__events_histogram(pg__append *to, const pg__event *e,
                               const double rows[PG_EVENT_BUCKETS][3], pg_err *err);

/* A model as described by Keras' to_json(): n bytes of JSON, shown as a graph. */
pg_status pg__events_model(pg__append *to, const pg__event *e, const char *json, size_t n,
                           pg_err *err);

#endif
