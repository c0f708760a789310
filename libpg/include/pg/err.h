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

typedef struct pg_err {
    pg_status code;    /* same value as the function returned */
    int sys;           /* errno of the failing call, 0 if there was none */
    char msg[512];     /* UTF-8, one line, no final newline, no program name */
    char hint[512];    /* what to do next ("pgunwrap --like ..."), or "": shown as "try: ..." */
    char detail[1024]; /* indented facts under the line, '\n' between them, or "" */
} pg_err;

/* Stable name of a code ("PG_E_FORMAT"), for logs and tests. Never NULL. */
PG_API const char *pg_status_name(pg_status st);

/* Fills *err (if not NULL) and returns code, so that a failure is one statement:
 *     return pg_fail(err, PG_E_FORMAT, "layer %s has no weight_names", name);
 * Call it where the failure is detected; callers above only pass the code on. hint and detail are
 * emptied. Names taken from files go through pg_printable() first. */
PG_API pg_status pg_fail(pg_err *err, pg_status code, const char *fmt, ...) PG_PRINTF(3, 4);

/* Same, with the text of errno_value appended. */
PG_API pg_status pg_fail_sys(pg_err *err, pg_status code, int errno_value, const char *fmt, ...)
    PG_PRINTF(4, 5);

/* Sets the hint, or adds a line of detail, of a filled *err (NULL allowed). A hint that does not
 * fit is left out, since it may be a command; a line of detail is cut at a character boundary. */
PG_API void pg_err_hint(pg_err *err, const char *fmt, ...) PG_PRINTF(2, 3);
PG_API void pg_err_detail(pg_err *err, const char *fmt, ...) PG_PRINTF(2, 3);

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
