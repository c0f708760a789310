/* err.c - filling a pg_err. Text that does not fit is cut at a character boundary, never mid-UTF-8.
 */
#include "pg/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

const char *pg_status_name(pg_status st)
{
    static const char *const names[] = {
        [PG_OK] = "PG_OK",
        [PG_E_ARG] = "PG_E_ARG",
        [PG_E_NOMEM] = "PG_E_NOMEM",
        [PG_E_IO] = "PG_E_IO",
        [PG_E_FORMAT] = "PG_E_FORMAT",
        [PG_E_LIMIT] = "PG_E_LIMIT",
        [PG_E_UNSUPPORTED] = "PG_E_UNSUPPORTED",
        [PG_E_UNKNOWN] = "PG_E_UNKNOWN",
        [PG_E_NO] = "PG_E_NO",
        [PG_E_AMBIGUOUS] = "PG_E_AMBIGUOUS",
        [PG_E_MISMATCH] = "PG_E_MISMATCH",
        [PG_E_CANCELLED] = "PG_E_CANCELLED",
        [PG_E_DEVICE] = "PG_E_DEVICE",
        [PG_E_PEER] = "PG_E_PEER",
    };
    size_t i = (size_t)st;
    return i < sizeof names / sizeof *names ? names[i] : "PG_E_?";
}

/* Cuts an incomplete UTF-8 sequence off the end of a text that did not fit. */
static void trim_utf8(char *s)
{
    size_t n = strlen(s), back = 0;
    while (back < 4 && back < n && ((unsigned char)s[n - 1 - back] & 0xC0) == 0x80)
        back++;
    if (back == n)
        return;
    const unsigned char lead = (unsigned char)s[n - 1 - back];
    const size_t want = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    if (back < want)
        s[n - 1 - back] = 0;
}

PG_PRINTF(3, 0)
static void format(char *dst, size_t cap, const char *fmt, va_list ap)
{
    if (cap && vsnprintf(dst, cap, fmt, ap) >= (int)cap)
        trim_utf8(dst);
}

PG_PRINTF(4, 0)
static void vset(pg_err *err, pg_status code, int sys, const char *fmt, va_list ap)
{
    err->code = code;
    err->sys = sys;
    err->hint[0] = err->detail[0] = 0;
    err->action = (pg_action){0};
    format(err->msg, sizeof err->msg, fmt, ap);
}

pg_status pg_fail(pg_err *err, pg_status code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (err)
        vset(err, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

/* The system's words for an error, in English where the C library can (glibc from 2.32 on). */
static const char *words_of(char *room, size_t size, int errno_value)
{
#ifdef PG_HAVE_STRERRORDESC
    const char *text = strerrordesc_np(errno_value);
    (void)room, (void)size;
    return text ? text : "unknown error";
#elif defined(PG_PORTABLE)
    return strerror_r(errno_value, room, size) == 0 ? room : "unknown error";
#else
    return strerror_r(errno_value, room, size); /* GNU's: the text, in there or not */
#endif
}

pg_status pg_fail_sys(pg_err *err, pg_status code, int errno_value, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (err) {
        vset(err, code, errno_value, fmt, ap);
        const size_t n = strlen(err->msg);
        char room[96];
        snprintf(err->msg + n, sizeof err->msg - n, ": %s",
                 words_of(room, sizeof room, errno_value));
    }
    va_end(ap);
    return code;
}

void pg_err_hint(pg_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (err)
        err->action.what = PG_DO_NOTHING;
    if (err && (vsnprintf(err->hint, sizeof err->hint, fmt, ap) >= (int)sizeof err->hint ||
                strstr(err->hint, PG_UNQUOTABLE)))
        err->hint[0] = 0; /* half a command is worse than none */
    va_end(ap);
}

/* ---- actions ---- */

const char *pg_do_name(pg_do what)
{
    static const char *const names[] = {
        [PG_DO_NOTHING] = "nothing",
        [PG_DO_SET] = "set",
        [PG_DO_GIVE] = "give",
        [PG_DO_UNWRAP] = "unwrap",
        [PG_DO_UNWRAP_TEMPLATE] = "unwrap-template",
        [PG_DO_WRAP] = "wrap",
        [PG_DO_JOIN] = "join",
        [PG_DO_CONVERT] = "convert",
        [PG_DO_COPY] = "copy",
        [PG_DO_COMPARE_BY_ORDER] = "compare-by-order",
        [PG_DO_GIVE_MODEL] = "give-model",
        [PG_DO_CHOOSE_FORMAT] = "choose-format",
        [PG_DO_CHOOSE_PART] = "choose-part",
        [PG_DO_OVERWRITE] = "overwrite",
        [PG_DO_IN_PLACE] = "in-place",
        [PG_DO_WRITE_NEW] = "write-new",
        [PG_DO_REPACK] = "repack",
        [PG_DO_LEAVE_OUT] = "leave-out",
        [PG_DO_LARGER_SHARDS] = "larger-shards",
        [PG_DO_SMALLER_BATCH] = "smaller-batch",
        [PG_DO_CHOOSE_DATA] = "choose-data",
        [PG_DO_USE_TEST_SET] = "use-test-set",
        [PG_DO_RESUME] = "resume",
        [PG_DO_START_AFRESH] = "start-afresh",
        [PG_DO_LIST_LAYERS] = "list-layers",
        [PG_DO_RENAME] = "rename",
        [PG_DO_USE_GPU] = "use-gpu",
        [PG_DO_LAUNCH] = "launch",
        [PG_DO_LAUNCH_RANKS] = "launch-ranks",
        [PG_DO_RANK_PER_GPU] = "rank-per-gpu",
        [PG_DO_MEASURE_LINK] = "measure-link",
        [PG_DO_BUILD_WITH_MPI] = "build-with-mpi",
    };
    const size_t i = (size_t)what;
    return i < sizeof names / sizeof *names ? names[i] : "nothing";
}

PG_PRINTF(3, 0)
static void add_arg(pg_action *a, const char *key, const char *fmt, va_list ap)
{
    const size_t n_key = strlen(key) + 1, left = sizeof a->args - a->n_bytes;
    char *to = a->args + a->n_bytes;
    if (a->what == PG_DO_NOTHING)
        return;
    const int n = n_key < left ? vsnprintf(to + n_key, left - n_key, fmt, ap) : -1;
    if (n < 0 || (size_t)n >= left - n_key) {
        *a = (pg_action){0};
        return;
    }
    memcpy(to, key, n_key);
    a->n_bytes += (unsigned)(n_key + (size_t)n + 1);
}

void pg__action_arg(pg_action *a, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_arg(a, key, fmt, ap);
    va_end(ap);
}

void pg_err_do(pg_err *err, pg_do what, const char *file)
{
    if (!err)
        return;
    err->hint[0] = 0;
    err->action = (pg_action){.what = what};
    if (file)
        pg__action_arg(&err->action, "file", "%s", file);
}

void pg_err_arg(pg_err *err, const char *key, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (err)
        add_arg(&err->action, key, fmt, ap);
    va_end(ap);
}

void pg_err_set(pg_err *err, const char *option, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pg_err_do(err, PG_DO_SET, NULL);
    if (err)
        add_arg(&err->action, option, fmt, ap);
    va_end(ap);
}

void pg_err_or(pg_err *err, const char *option, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    pg_err_arg(err, "or", "%s", "");
    if (err)
        add_arg(&err->action, option, fmt, ap);
    va_end(ap);
}

const char *pg_action_arg(const pg_action *a, size_t i, const char **value)
{
    const char *p = a->args, *end = a->args + a->n_bytes;
    while (p < end) {
        const char *key = p;
        *value = key + strlen(key) + 1;
        if (i-- == 0)
            return key;
        p = *value + strlen(*value) + 1;
    }
    return NULL;
}

const char *pg_action_get(const pg_action *a, const char *key)
{
    const char *k, *value;
    for (size_t i = 0; (k = pg_action_arg(a, i, &value)); i++)
        if (strcmp(k, key) == 0)
            return value;
    return NULL;
}

/* ---- more text ---- */

void pg_err_detail(pg_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (err) {
        size_t n = strlen(err->detail);
        if (n && n + 1 < sizeof err->detail) {
            err->detail[n++] = '\n';
            err->detail[n] = 0;
        }
        format(err->detail + n, sizeof err->detail - n, fmt, ap);
    }
    va_end(ap);
}

void pg_err_prefix(pg_err *err, const char *prefix)
{
    char old[sizeof err->msg];
    if (!err)
        return;
    memcpy(old, err->msg, sizeof old);
    if (snprintf(err->msg, sizeof err->msg, "%s: %s", prefix, old) >= (int)sizeof err->msg)
        trim_utf8(err->msg);
}

pg_status pg__fail_as(pg_err *err, const pg_err *why)
{
    if (err)
        *err = *why;
    return why->code;
}

void pg__err_append(pg_err *err, const char *text)
{
    const size_t n = strlen(text);
    if (!err || n >= sizeof err->msg)
        return;
    if (strlen(err->msg) + n >= sizeof err->msg) {
        err->msg[sizeof err->msg - 1 - n] = 0;
        trim_utf8(err->msg);
    }
    memcpy(err->msg + strlen(err->msg), text, n + 1);
}
