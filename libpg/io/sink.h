/* sink.h - the only way in which libpg writes files: an output appears whole or not at all.
 *
 *     PG_TRY(pg__sink_open(&s, path, &opts, err));   temporary .NAME.pg-XXXXXX in the same folder
 *     PG_TRY(pg__sink_reserve(s, n, err));           a full disk is known before the first byte
 *     PG_TRY(pg__sink_write(s, off, p, n, err));
 *     PG_TRY(pg__sink_copy(s, off, io, src, n, err));
 *     PG_TRY(pg__sink_commit(s, err));               mode, fsync, rename, fsync of the folder
 * done:
 *     pg__sink_close(s);                             without commit: the temporary is removed
 *
 * The steps and their order follow SQLite and git; tests make each of them fail.
 *
 * Messages start with the output's path. A symbolic link as the output is followed. A killed run
 * leaves its temporary; the next pg__sink_open() of the same output removes those whose run has
 * ended (their flock is free). So a signal handler has nothing to unlink: it sets the cancel flag,
 * and may _exit() on a second signal. Programs should ignore SIGXFSZ, or a file size limit kills
 * them. */
#ifndef PG_IO_SINK_H
#define PG_IO_SINK_H

#include "base/hash.h"
#include "base/str.h"
#include "base/watch.h"
#include "io/io.h"

typedef struct pg__sink pg__sink;

typedef struct pg__sink_opts {
    int force;                  /* replace an existing file */
    int no_sync;                /* no fsync */
    int fresh;                  /* no killed run can have left a temporary in this folder */
    const volatile int *cancel; /* PG_E_CANCELLED from the next call on once *cancel != 0 */
    pg_progress *progress;      /* gets the bytes written and copied; may be NULL */
    pg__io *input;       /* the output must not be this file (device and inode); may be NULL */
    pg__io *const *also; /* nor one of these (entries may be NULL): shards, the file of --like */
    size_t n_also;
} pg__sink_opts;

/* Errors: PG_E_ARG (the file exists, force is 0: the action is PG_DO_OVERWRITE; or the output is
 * the input or one of `also`), PG_E_IO. */
pg_status pg__sink_open(pg__sink **out, const char *path, const pg__sink_opts *opts, pg_err *err);

/* A sink in memory that can be reopened, but never committed: ranges never written take no
 * space. */
pg_status pg__sink_open_memory(pg__sink **out, pg_err *err);

/* The same checks as open, without creating anything: for --dry-run. */
pg_status pg__sink_check(const char *path, const pg__sink_opts *opts, pg_err *err);

/* For long work between writes: reports that work continues; PG_E_CANCELLED if the caller wants to
 * stop. NULL is allowed: nobody watches. */
pg_status pg__sink_tick(pg__sink *s, pg_err *err);

pg_status pg__sink_reserve(pg__sink *s, uint64_t n_bytes, pg_err *err);
pg_status pg__sink_write(pg__sink *s, uint64_t off, const void *p, size_t n, pg_err *err);

/* Makes the output at least n_bytes long; ranges that nobody writes are holes. */
pg_status pg__sink_extend(pg__sink *s, uint64_t n_bytes, pg_err *err);

/* Copies n bytes from src_off of io: whole blocks with FICLONERANGE if both offsets agree modulo
 * 4096, the rest through 256 KiB of memory. */
pg_status pg__sink_copy(pg__sink *s, uint64_t off, pg__io *io, uint64_t src_off, uint64_t n,
                        pg_err *err);

/* The same without sharing, where the copied bytes are also added to a checksum. */
pg_status pg__sink_copy_sum(pg__sink *s, uint64_t off, pg__io *io, uint64_t src_off, uint64_t n,
                            pg__xxh64 *sum, pg_err *err);

/* 1 if the file system can share blocks between io and the output. It tries this out, so nothing
 * may have been written before. */
int pg__sink_clones(pg__sink *s, pg__io *io);

/* Shares as much of those n bytes with the source as whole blocks allow, and nothing else:
 * *n_shared bytes from byte *first of the output (0: the file system cannot). The caller writes the
 * rest. */
pg_status pg__sink_share(pg__sink *s, uint64_t off, pg__io *io, uint64_t src_off, uint64_t n,
                         uint64_t *first, uint64_t *n_shared, pg_err *err);

/* Reads back what was written, for the proof before commit. The caller closes the io. */
pg_status pg__sink_reopen(pg__sink *s, pg__io **out, pg_err *err);

/* The path of the temporary, which holds everything written so far; into an empty string. */
pg_status pg__sink_temporary(pg__sink *s, pg__str *out, pg_err *err);

uint64_t pg__sink_size(const pg__sink *s); /* bytes so far: highest byte written */
pg_status pg__sink_commit(pg__sink *s, pg_err *err);
/* 1: the output has its name, also if pg__sink_commit() failed because the folder could not be
 * synced after that. */
int pg__sink_is_named(const pg__sink *s);
void pg__sink_close(pg__sink *s); /* NULL is allowed */

#endif
