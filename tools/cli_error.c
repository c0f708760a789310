/* cli_error.c - errors for people on stderr and, with --json, as an object on stdout. */
#include <stdarg.h>
#include <string.h>

#include "cli.h"
#include "json_out.h"

static int json_asked, json_reported;

void cli_expect_json(void)
{
    json_asked = 1;
}

void cli_reported_in_json(void)
{
    json_reported = 1;
}

/* ---- JSON ---- */

/* Lines of text as a list. */
static void put_details(const char *detail)
{
    const char *between = "";
    fputs(", \"details\": [", stdout);
    for (size_t n; *detail; detail += n + (detail[n] == '\n'), between = ", ") {
        char line[sizeof((pg_err *)0)->detail];
        n = strcspn(detail, "\n");
        snprintf(line, sizeof line, "%.*s", (int)n, detail);
        fputs(between, stdout);
        json_quoted(line);
    }
    fputs("]", stdout);
}

void cli_json_error(const pg_err *err, int status)
{
    fputs("\"error\": ", stdout);
    json_quoted(err->msg[0] ? err->msg : NULL);
    printf(", \"code\": \"%s\", \"status\": %d", pg_status_name(err->code), status);
    put_details(err->detail);
    pg_err full = *err;
    cli_complete_hint(&full);
    json_member("hint", full.hint[0] ? full.hint : NULL);
    cli_json_action(&full.action);
}

/* Only once: later errors are about stdout itself. */
static void put_object(const pg_err *err, const cli_list *lists, size_t n_lists)
{
    if (!(cli.json || json_asked) || json_reported)
        return;
    json_reported = 1;
    fputs(cli_has_events() ? "{\"event\": \"error\", " : "{", stdout);
    cli_json_error(err, cli_status(err->code));
    for (size_t i = 0; i < n_lists; i++)
        json_strings(lists[i].name, lists[i].items, lists[i].n);
    puts("}");
}

/* ---- text ---- */

static void print_block(const pg_err *err, const cli_list *lists, size_t n_lists)
{
    const char *detail = err->detail;
    cli_progress_end();
    fflush(stdout);
    cli_color(stderr, CLI_BAD);
    cli_printf(stderr, "%s:", cli_tool_name());
    cli_color(stderr, CLI_PLAIN);
    cli_printf(stderr, " %s\n", err->msg);
    while (*detail) {
        const size_t n = strcspn(detail, "\n");
        cli_printf(stderr, "  %.*s\n", (int)n, detail);
        detail += n + (detail[n] == '\n');
    }
    for (size_t i = 0; i < n_lists; i++)
        for (size_t k = 0; k < lists[i].n; k++)
            cli_printf(stderr, "  %s%s%s\n", lists[i].name, lists[i].between, lists[i].items[k]);
    if (err->hint[0])
        cli_printf(stderr, "try: %s\n", err->hint);
}

int cli_complain(const char *detail, const char *hint, const char *fmt, ...)
{
    pg_err err = {.code = PG_E_ARG};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err.msg, sizeof err.msg, fmt, ap);
    va_end(ap);
    snprintf(err.detail, sizeof err.detail, "%s", detail ? detail : "");
    snprintf(err.hint, sizeof err.hint, "%s", hint ? hint : "");
    return cli_fail(&err);
}

int cli_fail(const pg_err *err)
{
    return cli_fail_lists(err, NULL, 0);
}

int cli_fail_lists(const pg_err *err, const cli_list *lists, size_t n_lists)
{
    pg_err full = *err;
    cli_complete_hint(&full);
    put_object(&full, lists, n_lists);
    if (err->msg[0]) /* otherwise another process of the job prints it */
        print_block(&full, lists, n_lists);
    return cli_status(err->code);
}

/* ---- statuses ---- */

int cli_status(pg_status code)
{
    switch (code) {
    case PG_OK: return CLI_OK;
    case PG_E_NO:
    case PG_E_AMBIGUOUS:
    case PG_E_MISMATCH: return CLI_NO;
    case PG_E_UNSUPPORTED: return CLI_LACKS;
    case PG_E_DEVICE: return CLI_DEVICE;
    case PG_E_PEER: return CLI_PEER;
    case PG_E_CANCELLED: return CLI_INTERRUPTED;
    case PG_E_ARG:
    case PG_E_NOMEM:
    case PG_E_IO:
    case PG_E_FORMAT:
    case PG_E_LIMIT:
    case PG_E_UNKNOWN: break;
    }
    return CLI_TROUBLE;
}

int cli_worse(int a, int b)
{
    static const int order[] = {CLI_OK, CLI_NO, CLI_LACKS, CLI_PEER, CLI_DEVICE, CLI_TROUBLE};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (a == order[i])
            return b;
        else if (b == order[i])
            return a;
    return a;
}
