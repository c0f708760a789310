/* pginfo.h - shared by the parts of pginfo: one opened file and its findings. */
#ifndef PGINFO_H
#define PGINFO_H

#include "cli.h"

typedef struct info_opts {
    int stats, markdown;
    const char *layers; /* glob, or NULL */
    const char *sort;   /* "name", "size" or NULL: as stored */
    const char *html;   /* page to write, or NULL */
    int force;          /* --html: replace it */
} info_opts;

enum {
    INFO_BINS = 40,   /* of a histogram on the page */
    INFO_HEIGHT = 24, /* of its fullest bin */
};

typedef struct info {
    const char *path;
    uint64_t file_bytes; /* 0 if unknown */
    pg_store *store;     /* NULL if the file could not be opened at all */
    pg_err question;     /* several parts could be the model; the error of other tools */
    const char *format;  /* static, NULL if unknown */
    pg_verdict verdict;
    pg_finding found;
    pg_err err;        /* code is PG_OK if there is nothing to report */
    int status;        /* exit status for this file */
    size_t n_weighted; /* layers with weights (for a wrapper, of the template); 0 = none */
    uint64_t n_params, n_bytes;
    pg_param_counts counts;
    pg_stats *stats; /* with --stats: of tensor i, zero if --layers leaves it out; otherwise NULL */
    unsigned char (*heights)[INFO_BINS]; /* with --html: of its histogram */
} info;

/* pginfo_file.c: opens, judges and, for --stats, reads. Never fails; the result may be an error. */
void info_open(info *in, const char *path, const info_opts *o);
void info_close(info *in);

/* The tensors that --layers selects, in the order of --sort; the caller frees the list. NULL: out
 * of memory. *n may be 0. */
size_t *info_rows(const info *in, const info_opts *o, size_t *n);

/* Length of a weight's name without the variable number that Keras 2 appends (":0"). */
size_t info_bare_length(const char *name);

/* Names of tensor i for people: its layer's and its own. */
void info_row_names(const info *in, size_t i, cli_buf *layer, cli_buf *tensor);

/* Whether layer i is shown under --layers. */
int info_layer_wanted(const info *in, const info_opts *o, size_t i);

/* pginfo_text.c: the page about one file; returns the exit status. */
int info_print_text(const info *in, const info_opts *o);
const char *info_format_words(const char *format);
cli_buf info_number(double v);
int info_no_layer(const info *in,
                  const info_opts *o); /* the error that --layers selected nothing */

/* pginfo_html.c: the same as a page for browsers, into the file o->html. */
int info_write_html(const info *in, const info_opts *o);

/* pginfo_json.c: one object, without a newline after it. */
void info_print_json(const info *in, const info_opts *o);

/* pginfo_list.c: one line per file. */
struct table;
void info_list_head(struct table *t);
void info_list_add(struct table *t, const info *in, const char *path);

#endif
