/* pytorch_file.h - between the containers of a pickle (fmt_pytorch.c, pytorch_stream.c) and the
 * store that is made of it (pytorch_store.c). */
#ifndef PG_FORMAT_PYTORCH_FILE_H
#define PG_FORMAT_PYTORCH_FILE_H

#include "format/pytorch.h"
#include "io/zip.h"

/* What is open while a file is being read. */
typedef struct pg__pt_source {
    pg__io *io;
    pg__zip *zip; /* NULL: a stream, or a pickle alone */
    char *text;   /* of the pickle */
    size_t n_text;
    pg__str root; /* "NAME/" */
    pg__pickle pickle;
    pg__pt_tree tree;
    uint64_t *where; /* by tensor: member of the archive, or offset in the stream or in `inside` */
    unsigned char *inside; /* data that was in the pickle itself */
    int of_ranks;          /* the parts that a process has of larger tensors are wanted */
    uint32_t *cuts;        /* then by tensor: pg__pt_tensor.cut */
} pg__pt_source;

/* Finds the data of a tensor; name: of the tensor, for messages. */
typedef pg_status pg__pt_locator(uint64_t *where, pg__pt_source *f, const void *ctx,
                                 const pg__pt_tensor *t, const char *name, pg_err *err);

/* Makes the store of the requested part; it takes over the contents of f. ctx: for locate. */
pg_status pg__pt_make_store(pg_store **out, pg__pt_source *f, const char *format,
                            pg__pt_locator *locate, const void *ctx, pg_err *err);
/* Finds that part in f->pickle. */
pg_status pg__pt_read_tree(pg__pt_source *f, const pg_open_opts *opts, pg_err *err);

/* A ZIP of torch.save(): its pickle, for f->io; then the store of one part. f starts as {.io} and
 * is released with pg__pt_source_fini(), which does not close f->io. */
pg_status pg__pt_read_zip(pg__pt_source *f, pg_err *err);
pg_status pg__pt_zip_store(pg_store **out, pg__pt_source *f, const pg_open_opts *opts, pg_err *err);
void pg__pt_source_fini(pg__pt_source *f);

/* In such a store: the member that holds tensor i, and the byte in it where its elements begin. 0
 * if the pickle itself has them, or they are not in a row. */
int pg__pt_place(const pg_store *s, size_t i, uint64_t *member, uint64_t *at);

/* pytorch_stream.c: the format of torch before 1.6. */
int pg__pt_is_stream(const uint8_t *head, size_t n);
pg_status pg__pt_open_stream(pg_store **out, pg__pt_source *f, const pg_open_opts *opts,
                             pg_err *err);

#endif
