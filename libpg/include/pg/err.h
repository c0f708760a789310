/* err.h - how libpg reports failure: a code for programs, one line of text for people.
 *
 * The caller owns the pg_err (usually on the stack) and passes it as the last argument; NULL is
 * allowed everywhere and means "the code is enough". libpg never prints and never exits.
 */
#ifndef PG_ERR_H
#define PG_ERR_H

#if defined(__GNUC__)
#define PG_API               __attribute__((visibility("default")))
#define PG_MUST_USE          __attribute__((warn_unused_result))
#define PG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PG_API
#define PG_MUST_USE
#define PG_PRINTF(fmt, args)
#endif

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pg_status {
    PG_OK = 0,
    PG_E_ARG,         /* the caller broke a documented precondition */
    PG_E_NOMEM,       /* an allocation failed */
    PG_E_IO,          /* the operating system refused; pg_err.sys holds errno */
    PG_E_FORMAT,      /* the file is damaged or not what it claims to be */
    PG_E_LIMIT,       /* the file asks for more than the limits allow */
    PG_E_UNSUPPORTED, /* valid, but not handled by this build */
    PG_E_UNKNOWN,     /* no format claims this input */
    PG_E_NO,          /* the answer is no: there is nothing to unwrap */
    PG_E_AMBIGUOUS,   /* the evidence does not decide; the message says what would */
    PG_E_MISMATCH,    /* two models that should agree do not */
    PG_E_CANCELLED,   /* the caller's cancel flag was set */
    PG_E_DEVICE,      /* a device failed during its work */
    PG_E_PEER         /* another process of the same job did not arrive, or is gone */
} pg_status;

/* What would help, as data: a program can carry it out, and our tools print it as a command line.
 * "Arguments" lists the keys that pg_action_get() finds; one in brackets may be absent. */
typedef enum pg_do {
    PG_DO_NOTHING = 0,
    /* Repeat the call with other options. Arguments: the options' names (batch_size, like, ...) and
     * values, "" for a switch. The key "or" begins another choice; "note" is a remark on it. */
    PG_DO_SET,
    /* The same where only the user knows the value: the argument's value is a placeholder. */
    PG_DO_GIVE,

    /* files */

    /* Call pg_unwrap_file(). Arguments: file; [split], a folder to be joined into file first;
     * [like]; [needs_model] or [needs_names], a `like` that the user must supply; [template];
     * [partial]; [in_place]; [out], a free name for the output; [suffix] of the output. */
    PG_DO_UNWRAP,
    /* Call it twice, because a wrapper's file lacks layers: first to take out the whole template,
     * then on the result with `partial`. Arguments: file, like, [in_place]. */
    PG_DO_UNWRAP_TEMPLATE,
    /* Call pg_wrap_file() with a file of such a wrapper as `like`. Arguments: [file]. */
    PG_DO_WRAP,
    /* Call pg_join_file(), then repeat the call on its output. Arguments: file. */
    PG_DO_JOIN,
    /* Call pg_convert_file(). Arguments: file, [out] or [suffix], [model], [layout]. */
    PG_DO_CONVERT,
    /* Call pg_convert_file() to write a new file without unreachable data. Arguments: file. */
    PG_DO_COPY,
    /* Call pg_compare_files() with `by_order`. Arguments: file, other. */
    PG_DO_COMPARE_BY_ORDER,
    /* Repeat the call with the model's description. Arguments: file, [out], [input], [expect],
     * [device]. */
    PG_DO_GIVE_MODEL,
    /* Repeat the call and name the output's format. Arguments: [file]; [to], a format that is a
     * folder. */
    PG_DO_CHOOSE_FORMAT,
    /* Repeat the call on one part of the checkpoint. Arguments: part. */
    PG_DO_CHOOSE_PART,
    /* Repeat the call with `force`. Arguments: [split] if the output is a folder of shards. */
    PG_DO_OVERWRITE,
    /* Repeat the call with `in_place`. Arguments: file. */
    PG_DO_IN_PLACE,
    /* Repeat the call without `in_place`. Arguments: file, [suffix] of the new file. */
    PG_DO_WRITE_NEW,
    /* Let HDF5's h5repack write the file in an older form. Arguments: file. */
    PG_DO_REPACK,
    /* Copy the damaged files again, or join the shards without their tensors. */
    PG_DO_LEAVE_OUT,
    /* Repeat the call with a larger `max_shard_size`. */
    PG_DO_LARGER_SHARDS,

    /* training */

    /* Train with a smaller batch, or place some layers on another device. Arguments: [batch_size];
     * [accumulate], with which the update is that of [rows] rows; [place]. */
    PG_DO_SMALLER_BATCH,
    /* Name the arrays of the data to use. Arguments: [x], [y], or, [x], [y]. */
    PG_DO_CHOOSE_DATA,
    /* Validate with the test set that the training data's file holds. */
    PG_DO_USE_TEST_SET,
    /* Resume the run that stopped. Arguments: file. */
    PG_DO_RESUME,
    /* Start the run again without its saved state. Arguments: [elsewhere] if another folder would
     * do as well. */
    PG_DO_START_AFRESH,
    /* List the layers that can be trained: pg_layer_class(). */
    PG_DO_LIST_LAYERS,
    /* Call pg_convert_file() with `rename`, if only the names differ. */
    PG_DO_RENAME,
    /* Repeat the call on a GPU, or without `precision`. Arguments: precision. */
    PG_DO_USE_GPU,

    /* several processes */

    /* Start this job through MPI. Arguments: [srun] if srun started it. */
    PG_DO_LAUNCH,
    /* Start this job with this number of ranks, or without `deterministic`. Arguments: ranks. */
    PG_DO_LAUNCH_RANKS,
    /* Start one process per GPU, or one per machine. */
    PG_DO_RANK_PER_GPU,
    /* Make the plan on two of the machines. Arguments: [alone] if this process is the only one. */
    PG_DO_MEASURE_LINK,
    /* Install the package, then build libpg again. Arguments: package. */
    PG_DO_BUILD_WITH_MPI,
    PG_N_DO
} pg_do;

/* Pairs of a key and a value, both text; numbers are in decimal. */
typedef struct pg_action {
    pg_do what;
    unsigned n_bytes; /* of args in use */
    char args[632];   /* "key\0value\0key\0value\0" */
} pg_action;

typedef struct pg_err {
    pg_status code;    /* same value as the function returned */
    int sys;           /* errno of the failing call, 0 if there was none */
    char msg[512];     /* UTF-8, one line, no final newline, no program name */
    char hint[512];    /* advice in words where `action` has none, or "" */
    char detail[1024]; /* indented facts under the line, '\n' between them, or "" */
    pg_action action;  /* what to do next; PG_DO_NOTHING if none is known, or hint says it */
} pg_err;

/* Stable name of a code ("PG_E_FORMAT"), for logs and tests. Never NULL. */
PG_API const char *pg_status_name(pg_status st);

/* Fills *err (if not NULL) and returns code, so that a failure is one statement:
 *     return pg_fail(err, PG_E_FORMAT, "layer %s has no weight_names", name);
 * Call it where the failure is detected; callers above only pass the code on. hint and detail are
 * emptied, and so is action. Names taken from files go through pg_printable() first. */
PG_API pg_status pg_fail(pg_err *err, pg_status code, const char *fmt, ...) PG_PRINTF(3, 4);

/* Same, with the text of errno_value appended. */
PG_API pg_status pg_fail_sys(pg_err *err, pg_status code, int errno_value, const char *fmt, ...)
    PG_PRINTF(4, 5);

/* Sets the hint (in place of an action), or adds a line of detail, of a filled *err (NULL allowed).
 * A hint that does not fit is left out, since it may be a command; a line of detail is cut at a
 * character boundary. */
PG_API void pg_err_hint(pg_err *err, const char *fmt, ...) PG_PRINTF(2, 3);
PG_API void pg_err_detail(pg_err *err, const char *fmt, ...) PG_PRINTF(2, 3);

/* Sets the action (in place of a hint) of a filled *err (NULL allowed), about this file (NULL:
 * none), and adds an argument to it. An action whose arguments do not fit is taken back: half of
 * one must not be carried out. pg_err_set() is PG_DO_SET with one option; pg_err_or() begins
 * another choice. */
PG_API void pg_err_do(pg_err *err, pg_do what, const char *file);
PG_API void pg_err_arg(pg_err *err, const char *key, const char *fmt, ...) PG_PRINTF(3, 4);
PG_API void pg_err_set(pg_err *err, const char *option, const char *fmt, ...) PG_PRINTF(3, 4);
PG_API void pg_err_or(pg_err *err, const char *option, const char *fmt, ...) PG_PRINTF(3, 4);

/* "unwrap", "give-model"; "nothing". Never NULL. */
PG_API const char *pg_do_name(pg_do what);
/* Value of an argument, or NULL. Key of the i-th one and its value, or NULL after the last. Both
 * live as long as the action. */
PG_API const char *pg_action_get(const pg_action *a, const char *key);
PG_API const char *pg_action_arg(const pg_action *a, size_t i, const char **value);

/* Puts "prefix: " before the message; done once, by the function that knows the path. */
PG_API void pg_err_prefix(pg_err *err, const char *prefix);

/* Copies a name taken from a file (len bytes) into buf (cap >= 8 bytes) so that a terminal can show
 * it: control and bidi characters and invalid UTF-8 become \xNN, the end of what does not fit
 * becomes "...". Returns buf. */
PG_API const char *pg_printable(char *buf, size_t cap, const char *name, size_t len);

/* What somebody who typed `name` may have meant, for a message: of the names that each(ctx, 0),
 * each(ctx, 1), ... gives until NULL, the nearest that is fewer than three changes of a letter away
 * and shares half of its letters, else the first that begins with it. NULL: none is near. */
PG_API const char *pg_nearest(const char *name, const char *(*each)(const void *ctx, size_t i),
                              const void *ctx);

#ifdef __cplusplus
}
#endif

#endif
