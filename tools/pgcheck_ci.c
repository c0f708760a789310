/* pgcheck_ci.c - results for continuous integration. Texts come from files, so each format escapes
 * its own syntax: TAP '#', XML markup and what XML 1.0 forbids, GitHub '%' and line ends. */
#include <string.h>

#include "json_out.h"
#include "pgcheck.h"

/* ---- TAP version 13 ---- */

static void tap_text(const char *s)
{
    for (; *s; s++)
        if (*s == '#' || *s == '\\')
            printf("\\%c", *s);
        else
            putchar(*s);
}

/* In double quotes, YAML accepts JSON's escapes. */
static void tap_details(const pg_check *c)
{
    if (c->ok || !c->n_details)
        return;
    puts("  ---\n  details:");
    for (size_t i = 0; i < c->n_details; i++) {
        fputs("    - ", stdout);
        json_quoted(c->details[i]);
        putchar('\n');
    }
    puts("  ...");
}

void check_print_tap(const checked *files, size_t n)
{
    size_t all = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        all += files[i].err.code == PG_OK ? files[i].r.n_checks : 1;
    printf("TAP version 13\n1..%zu\n", all);
    for (size_t i = 0; i < n; i++) {
        const checked *f = &files[i];
        if (f->err.code != PG_OK) {
            printf("not ok %zu - ", ++at);
            tap_text(f->err.msg);
            putchar('\n');
        }
        for (size_t k = 0; f->err.code == PG_OK && k < f->r.n_checks; k++) {
            const pg_check *c = &f->r.checks[k];
            printf("%s %zu - ", c->ok ? "ok" : "not ok", ++at);
            if (n > 1) {
                tap_text(cli_name(f->path).s);
                putchar(' ');
            }
            printf("%s: ", c->name);
            tap_text(c->summary);
            putchar('\n');
            tap_details(c);
        }
        for (size_t k = 0; k < f->r.n_notes; k++) {
            fputs("# note: ", stdout);
            puts(f->r.notes[k]);
        }
    }
}

/* ---- JUnit ---- */

static void xml_text(const char *s)
{
    for (; *s; s++)
        switch (*s) {
        case '&': fputs("&amp;", stdout); break;
        case '<': fputs("&lt;", stdout); break;
        case '>': fputs("&gt;", stdout); break;
        case '"': fputs("&quot;", stdout); break;
        default: putchar((unsigned char)*s < 0x20 && *s != '\n' ? '?' : *s);
        }
}

static void junit_case(const checked *f, const pg_check *c)
{
    fputs("    <testcase classname=\"", stdout);
    xml_text(cli_name(f->path).s);
    printf("\" name=\"%s\"", c->name);
    if (c->ok) {
        puts("/>");
        return;
    }
    fputs(">\n      <failure message=\"", stdout);
    xml_text(c->summary);
    fputs("\">", stdout);
    for (size_t i = 0; i < c->n_details; i++) {
        fputs(i ? "\n" : "", stdout);
        xml_text(c->details[i]);
    }
    puts("</failure>\n    </testcase>");
}

void check_print_junit(const checked *files, size_t n)
{
    puts("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>");
    for (size_t i = 0; i < n; i++) {
        const checked *f = &files[i];
        const int error = f->err.code != PG_OK;
        size_t failures = 0;
        for (size_t k = 0; k < f->r.n_checks; k++)
            failures += !f->r.checks[k].ok;
        fputs("  <testsuite name=\"pgcheck ", stdout);
        xml_text(cli_name(f->path).s);
        printf("\" tests=\"%zu\" failures=\"%zu\" errors=\"%d\">\n", error ? 1 : f->r.n_checks,
               failures, error);
        if (error) {
            fputs("    <testcase classname=\"", stdout);
            xml_text(cli_name(f->path).s);
            fputs("\" name=\"open\">\n      <error message=\"", stdout);
            xml_text(f->err.msg);
            puts("\"/>\n    </testcase>");
        }
        for (size_t k = 0; k < f->r.n_checks; k++)
            junit_case(f, &f->r.checks[k]);
        puts("  </testsuite>");
    }
    puts("</testsuites>");
}

/* ---- GitHub ---- */

static void github_text(const char *s, int property)
{
    for (; *s; s++)
        if (strchr("%\r\n", *s) || (property && strchr(":,", *s)))
            printf("%%%02X", (unsigned)(unsigned char)*s);
        else
            putchar(*s);
}

static void annotation(const char *kind, const char *path, const char *check, const char *text)
{
    printf("::%s file=", kind);
    github_text(path, 1);
    fputs(",title=", stdout);
    github_text(check ? "pgcheck: " : "pgcheck", 1);
    github_text(check ? check : "", 1);
    fputs("::", stdout);
    github_text(text, 0);
}

static void github_check(const char *path, const pg_check *c, const char *hint)
{
    /* details of values are whole sentences; details of other checks explain their summary */
    if (strcmp(c->name, "values") == 0 && c->n_details) {
        for (size_t i = 0; i < c->n_details; i++) {
            annotation("error", path, c->name, c->details[i]);
            putchar('\n');
        }
        return;
    }
    annotation("error", path, c->name, c->summary);
    for (size_t i = 0; i < c->n_details; i++) {
        fputs("%0A", stdout);
        github_text(c->details[i], 0);
    }
    if (*hint) {
        fputs("%0Atry: ", stdout);
        github_text(hint, 0);
    }
    putchar('\n');
}

/* What to do next stands at the first check that failed. */
void check_print_github(const checked *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const cli_buf path = cli_name(files[i].path);
        cli_hint hint = check_hint(&files[i].r);
        if (files[i].err.code != PG_OK) {
            annotation("error", path.s, NULL, files[i].err.msg);
            putchar('\n');
        }
        for (size_t k = 0; k < files[i].r.n_checks; k++)
            if (!files[i].r.checks[k].ok) {
                github_check(path.s, &files[i].r.checks[k], hint.s);
                hint.s[0] = 0;
            }
        for (size_t k = 0; k < files[i].r.n_notes; k++) {
            annotation("notice", path.s, NULL, files[i].r.notes[k]);
            putchar('\n');
        }
    }
}

/* ---- JSON ---- */

static void json_check(const pg_check *c)
{
    fputs("\n  {\"name\": ", stdout);
    json_quoted(c->name);
    printf(", \"ok\": %s", c->ok ? "true" : "false");
    json_member("summary", c->summary);
    json_strings("details", c->details, c->n_details);
    putchar('}');
}

static void json_hint(const pg_check_report *r)
{
    const cli_hint hint = check_hint(r);
    fputs("\"error\": null", stdout);
    json_member("hint", hint.s[0] ? hint.s : NULL);
    cli_json_action(&r->action);
}

void check_print_json(const checked *files, size_t n, int is_list)
{
    cli_reported_in_json();
    for (size_t i = 0; i < n; i++) {
        const checked *f = &files[i];
        fputs(!is_list ? "" : i ? ",\n" : "[", stdout);
        fputs("{\"file\": ", stdout);
        json_quoted(f->path);
        printf(", \"ok\": %s", f->err.code == PG_OK && f->r.ok ? "true" : "false");
        fputs(", ", stdout);
        if (f->err.code != PG_OK)
            cli_json_error(&f->err, f->status);
        else
            json_hint(&f->r);
        json_strings("notes", f->r.notes, f->r.n_notes);
        fputs(", \"checks\": [", stdout);
        for (size_t k = 0; k < f->r.n_checks; k++) {
            fputs(k ? "," : "", stdout);
            json_check(&f->r.checks[k]);
        }
        fputs("]}", stdout);
        fputs(i + 1 < n ? "" : is_list ? "]\n" : "\n", stdout);
    }
}
