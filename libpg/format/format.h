/* format.h - one file format = one fmt_<name>.c that defines `const pg__format pg__fmt_<name>`
 * and one line in formats.def (order = order of the probes). */
#ifndef PG_FORMAT_FORMAT_H
#define PG_FORMAT_FORMAT_H

#include "format/h5/h5.h"
#include "io/flip.h"
#include "io/sink.h"
#include "store/plan.h"

#define PG_PROBE_BYTES 16

/* Makes an output of new links to the tensors of its source, see keras_h5_relink.c. */
typedef struct pg__relinker {
    /* PG_OK if a plan should be carried out this way; PG_E_UNSUPPORTED with the reason if not.
     * sink: of the copy, with nothing written yet; NULL: in place. */
    pg_status (*allowed)(const pg__plan *plan, pg__sink *sink, pg__relink_when when, pg_err *err);
    /* copy: the output must hold nothing from the old file that nothing points to. */
    pg_status (*make)(pg__relinked *out, const pg__plan *plan, int copy, const volatile int *cancel,
                      pg_err *err);
    /* Whether every tensor of `out`, the reopened result, is in the same place as its source. */
    pg_status (*check)(const pg_store *out, const pg__plan *plan, pg_err *err);
    /* The bytes of the file that `out` owns, see pg__h5_used(). */
    const pg__run *(*used)(const pg_store *out, size_t *n);
} pg__relinker;

typedef struct pg__format {
    const char *name;
    /* Values of pg_store_format() for its stores, "\0"-separated; NULL: only the name. */
    const char *words;
    /* 1 if a file that starts with head (n <= PG_PROBE_BYTES bytes) may have this format; does not
     * allocate. NULL: never asked, because another format's open leads to it (fmt_h5.h). */
    int (*probe)(const uint8_t *head, size_t n);
    /* The same for a format that is known by the last 8 bytes of its files; else NULL. */
    int (*tail)(const uint8_t tail[8]);
    /* PG_E_UNKNOWN means "not mine after all": the next format is tried. References io. Messages do
     * not name the file; the caller does. path: to find files beside it (shards, index). */
    pg_status (*open)(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                      pg_err *err);
    /* Path, fresh, of the file to open of a checkpoint that is a folder; *out stays NULL if it is
     * none of this format. NULL: a folder never is. Formats are asked in their order. */
    pg_status (*in_folder)(char **out, const char *folder, pg_err *err);
    /* The same for a path that is no file, a prefix, or another file of the checkpoint. */
    pg_status (*of_path)(char **out, const char *path, pg_err *err);
    /* The same for an output with pg__plan.beside, which is not under its name yet; NULL: the
     * format has no such outputs. */
    pg_status (*open_beside)(pg_store **out, pg__io *io, const char *path, pg__io *beside,
                             const char *name, pg_err *err);
    /* Writes a complete file into sink; NULL if the format can only be read. The caller verifies
     * and commits. */
    pg_status (*write)(pg__sink *sink, const pg__plan *plan, pg_err *err);
    /* Compares what a plan carries besides layers, tensors and texts (attributes, members) with
     * `out`, the reopened output; NULL: there is nothing else. */
    pg_status (*verify)(pg_store *out, const pg__plan *plan, pg_err *err);
    const pg__relinker *relinker; /* NULL: outputs are always written afresh */
    /* File name suffixes of this format, "\0"-separated, for error messages. */
    const char *suffixes;
    int has_parts; /* pg_open_opts.part means something */
    int has_rules; /* pg_open_opts.rules does */
    int of_ranks;  /* what several processes or devices wrote: pgjoin puts it together */
} pg__format;

#define PG_FORMAT(name) extern const pg__format pg__fmt_##name;
#include "format/formats.def"
#undef PG_FORMAT

/* Opens io as the first format that accepts it; the message names the file. path may be NULL. */
pg_status pg__format_open(pg_store **out, const pg__format **fmt, pg__io *io, const char *path,
                          const pg_open_opts *opts, pg_err *err);

/* Path, fresh, of the manifest or index that makes a folder a split model. PG_E_IO with EISDIR if
 * there is none, PG_E_UNSUPPORTED if it is a checkpoint that libpg does not read. */
pg_status pg__folder_index(char **out, const char *folder, pg_err *err);

/* Path, fresh, of the file to open for a path that is not one itself: a folder, the prefix of a
 * checkpoint, or one of its parts. *out stays NULL if the path is the file. */
pg_status pg__index_of(char **out, const char *path, pg_err *err);

/* The format that made a store. */
const pg__format *pg__format_of(const pg_store *s);

typedef struct pg__save_opts {
    pg__sink_opts sink;
    int skip_verify;
    int read_once; /* large tensors: the output is compared with the checksums of what was read to
                      write it, not with the source, read again. Always so in a browser; never of
                      stores that copy tensors themselves */
    pg__relink_when relink;
    pg_status (*prove)(void *user, const char *path, pg_err *err); /* as pg_write_opts.prove */
    void *user;
} pg__save_opts;

typedef struct pg__save_report {
    size_t n_verified; /* tensors read back and equal to their source */
    uint64_t file_bytes;
    uint64_t added_bytes; /* in place: bytes added to the old contents */
    int is_named;         /* set also after a failure: the output has its name */
} pg__save_report;

/* Carries out a plan: writes `path` in format f through a sink, reopens it with f, checks layer
 * and weight names, order, shapes, types and texts against the plan and every tensor's bytes
 * against its source, then commits. report may be NULL. */
pg_status pg__format_save(const pg__format *f, const char *path, const pg__plan *plan,
                          const pg__save_opts *opts, pg__save_report *report, pg_err *err);

/* Carries out a plan in the file of its source, which `file` has open: the new structure is built
 * and proven in memory, then written to the file in one step (flip.h). dry_run: all but that step.
 * PG_E_UNSUPPORTED with the reason if that is not possible. Of opts: sink.cancel and
 * sink.progress. */
pg_status pg__format_save_in_place(const pg__format *f, pg__flip *file, const pg__plan *plan,
                                   const pg__save_opts *opts, int dry_run, pg__save_report *report,
                                   pg_err *err);

#endif
