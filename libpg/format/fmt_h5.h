/* fmt_h5.h - one walk over an HDF5 file for all formats that live in HDF5.
 *
 * The first 16 bytes do not distinguish Keras' layouts; the contents of the root group do. So there
 * is one probe and one open: pg__hdf5_open() walks the file once and hands the result to the layout
 * that the root shows (fmt_keras_h5.c: layer_names, model_weights, model_config; fmt_keras_v3.c:
 * groups layers or _layer_checkpoint_dependencies). pg__fmt_keras_h5 has the probe;
 * pg__fmt_keras_v3 has .probe = NULL and the same .open. */
#ifndef PG_FORMAT_FMT_H5_H
#define PG_FORMAT_FMT_H5_H

#include "format/format.h"
#include "format/h5/h5.h"

/* 1: the HDF5 signature. */
int pg__hdf5_probe(const uint8_t *head, size_t n);

/* Walks io and opens it as the layout that its root shows. PG_E_UNKNOWN: "HDF5, but not a Keras
 * file", and whose it is if the root says so. */
pg_status pg__hdf5_open(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                        pg_err *err);

/* Adds to pg_store_others() the values in a file whose types weights never have. */
pg_status pg__hdf5_note_unread(pg_store *s, const pg__h5 *h5, pg_err *err);

/* "2 datasets beside the weights (extra, notes/epochs)": n of them, names of the first
 * PG_H5_BESIDE. */
#define PG_H5_BESIDE 3
pg_status pg__hdf5_say_beside(pg__str *out, size_t n, const char *names, pg_err *err);

/* A store over a walked file. On success it owns h5 and references io; on failure the caller still
 * owns h5. Messages do not name the file. */
pg_status pg__keras_h5_from(pg_store **out, pg__h5 *h5, pg__io *io, const pg_open_opts *opts,
                            pg_err *err);
pg_status pg__keras_v3_from(pg_store **out, pg__h5 *h5, pg__io *io, const pg_open_opts *opts,
                            pg_err *err);

#endif
