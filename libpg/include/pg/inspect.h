/* inspect.h - finds out what a checkpoint is: a single-device model, a parallel wrapper, or
 * neither.
 *
 *     pg_err err;
 *     pg_store *s = NULL;
 *     pg_finding f = {0};
 *     if (pg_store_open(&s, "parallel.h5", NULL, &err) == PG_OK && pg_inspect(&f, s, &err) == PG_OK)
 *         printf("%s: %s\n", pg_verdict_name(f.verdict), f.reason);
 *     pg_finding_fini(&f);
 *     pg_store_close(s);
 */
#ifndef PG_INSPECT_H
#define PG_INSPECT_H

#include "pg/store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pg_verdict {
    PG_V_UNKNOWN,    /* not a checkpoint that libpg knows */
    PG_V_SINGLE,     /* a single-device model */
    PG_V_WRAPPER,    /* a parallel wrapper around one template */
    PG_V_NESTED,     /* an ordinary nested model (transfer learning, GAN, multi-view ...) */
    PG_V_AMBIGUOUS,  /* names alone cannot distinguish a wrapper from a nested model */
    PG_V_DAMAGED,    /* half-written, truncated or inconsistent */
    PG_V_NO_WEIGHTS  /* a model without a single weight */
} pg_verdict;

/* "unknown", "single", "wrapper", "nested", "ambiguous", "damaged", "no-weights". */
PG_API const char *pg_verdict_name(pg_verdict v);

typedef struct pg_finding {
    pg_verdict verdict;
    const char *recogniser;  /* static: name of the wrapper's kind, or NULL */
    int certain;             /* 1: all evidence agrees; 0: likely, so tell the user */
    size_t replicas;         /* 0 if it does not apply (PyTorch prefixes) */
    char *template_name;     /* the nested model, or the PyTorch prefix, or the words of wrappers that
                              * stand inside names ("module, _fsdp_wrapped_module"); owned; may be NULL */
    char *reason;            /* one sentence for people, never NULL after PG_OK; owned */
    char **evidence;         /* facts on which the verdict rests, one line each; owned */
    size_t n_evidence;
    char **slices, **merges; /* names of the layers around the template; owned */
    size_t n_slices, n_merges;
    /* For a wrapper whose file does not determine the order of its layers: the reason, in words;
     * owned. pg_unwrap_file() then needs opts.like. NULL: it accepts the file as it is. With
     * PG_V_SINGLE: a name of PyTorch holds "module", which may be a wrapper's. */
    char *unsettled;
    /* What takes the model out: PG_DO_UNWRAP, or PG_DO_JOIN for what the ranks of a job saved.
     * PG_DO_NOTHING if there is nothing to take out. */
    pg_action next;
    char *index; /* one shard of several: path of the index, which describes the whole; owned */
} pg_finding;

/* Fills *out (which the caller zeroed or released) from names and from the model's config, if the
 * file has one; no tensor is read. PG_OK for every verdict. Release with pg_finding_fini().
 * Errors: PG_E_NOMEM. */
PG_API PG_MUST_USE pg_status pg_inspect(pg_finding *out, pg_store *s, pg_err *err);

/* Releases what a finding owns and zeroes it. NULL and {0} are allowed. */
PG_API void pg_finding_fini(pg_finding *f);

/* The same for a file that pg_store_open() refused with `failure`: PG_V_DAMAGED or PG_V_UNKNOWN; and
 * what its first bytes say of its container, a static word ("hdf5", "zip", "pytorch-zip", "npy"), or
 * NULL. */
PG_API pg_verdict pg_failure_verdict(pg_status failure);
PG_API const char *pg_failure_container(const char *path, pg_status failure);

typedef struct pg_param_counts {
    int known; /* 0: the file does not describe its model, its tensors do not fit the description,
                  or a layer that is not frozen and not of a Keras class has weights */
    uint64_t trainable, non_trainable;
} pg_param_counts;

/* Counts the parameters of the one-device model as Keras' summary() does: those that training
 * changes, and the others (frozen layers, moving statistics). For a wrapper, counts those of the
 * template. No tensor is read. PG_OK with known = 0 if the file alone does not show it. Errors:
 * PG_E_NOMEM. */
PG_API PG_MUST_USE pg_status pg_count_params(pg_param_counts *out, pg_store *s, pg_err *err);

/* Reads a model's JSON from a descriptor to its end, a pipe or standard input, for the options
 * `like_text` and `model_text` (a file name must name a regular file). *out ends with a zero;
 * release it with pg_text_free(). The descriptor stays open. Errors: PG_E_IO; PG_E_UNKNOWN (empty,
 * or not JSON); PG_E_LIMIT (64 MiB, as for files); PG_E_FORMAT; PG_E_NOMEM. Messages name no
 * file. */
PG_API PG_MUST_USE pg_status pg_model_text_read(char **out, int fd, pg_err *err);
PG_API void pg_text_free(char *text); /* NULL is allowed */

#ifdef __cplusplus
}
#endif

#endif
