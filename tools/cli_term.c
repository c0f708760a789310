/* cli_term.c - output for people: locale, colour, names, numbers.
 *
 * The tools build all text as UTF-8; this file decides, at the last moment, what the locale can
 * show. It reads the locale from the environment instead of calling setlocale(), whose tables take
 * longer to load than the rest of a small tool's start, and are missing in bare containers. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

static int utf8, color_out, color_err;

/* Open MPI's mpirun gives each process a pseudo terminal, wherever mpirun's own output goes. If
 * mpirun is the parent, look at its output instead; its daemon on another host has no terminal. */
static int is_mpiruns(void)
{
    char path[32], target[16] = "";
    if (!getenv("OMPI_COMM_WORLD_RANK"))
        return 0;
    snprintf(path, sizeof path, "/proc/%ld/fd/1", (long)getppid());
    if (readlink(path, target, sizeof target - 1) <= 0)
        return 0;
    return strncmp(target, "/dev/pts/", 9) != 0 && strncmp(target, "/dev/tty", 8) != 0;
}

int cli_on_terminal(FILE *f)
{
    const char *term = getenv("TERM");
    return term && strcmp(term, "dumb") != 0 && isatty(fileno(f)) && !(f == stdout && is_mpiruns());
}

size_t cli_columns(void)
{
    struct winsize w = {0};
    return cli_on_terminal(stdout) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ? w.ws_col : 0;
}

static int wants_color(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE");
    if (cli.color && strcmp(cli.color, "auto") != 0)
        return strcmp(cli.color, "always") == 0;
    if (no && *no)
        return 0;
    if (force && *force && strcmp(force, "0") != 0)
        return 1;
    return cli_on_terminal(f);
}

void cli_term_init(void)
{
    static const char *const vars[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t i = 0; i < 3 && !(locale && *locale); i++)
        locale = getenv(vars[i]);
    const char *set = locale ? strchr(locale, '.') : NULL;
    utf8 = set && (strncasecmp(set, ".utf-8", 6) == 0 || strncasecmp(set, ".utf8", 5) == 0);
    color_out = wants_color(stdout);
    color_err = wants_color(stderr);
}

void cli_color(FILE *f, cli_style style)
{
    static const char *const codes[] = {"\033[0m",  "\033[1m",    "\033[32m",
                                        "\033[33m", "\033[1;31m", "\033[2m"};
    if (f == stdout ? color_out : color_err)
        fputs(codes[style], f);
}

/* ASCII replacements for the characters that our own texts use. */
static const struct {
    const char *from, *to;
} ascii[] = {
    {"\xC3\x97", "x"},       /* multiplication sign */
    {"\xC2\xB7", "."},       /* middle dot */
    {"\xCE\x94", "d"},       /* capital delta */
    {"\xE2\x80\x93", "-"},   /* en dash */
    {"\xE2\x80\xA6", "..."}, /* ellipsis */
    {"\xE2\x86\x92", "->"},  /* arrow */
    {"\xE2\x96\x81", "."},   /* blocks, one to eight eighths high */
    {"\xE2\x96\x82", "."},   {"\xE2\x96\x83", "."}, {"\xE2\x96\x84", "."}, {"\xE2\x96\x85", "#"},
    {"\xE2\x96\x86", "#"},   {"\xE2\x96\x87", "#"}, {"\xE2\x96\x88", "#"},
};

static void put_ascii(FILE *f, const char *s)
{
    while (*s) {
        size_t k = 0;
        if ((unsigned char)*s < 0x80) {
            putc(*s++, f);
            continue;
        }
        while (k < sizeof ascii / sizeof *ascii &&
               strncmp(s, ascii[k].from, strlen(ascii[k].from)) != 0)
            k++;
        if (k < sizeof ascii / sizeof *ascii) {
            fputs(ascii[k].to, f);
            s += strlen(ascii[k].from);
        } else {
            fprintf(f, "\\x%02x", (unsigned)(unsigned char)*s++);
        }
    }
}

void cli_puts(FILE *f, const char *text)
{
    if (utf8)
        fputs(text, f);
    else
        put_ascii(f, text);
}

void cli_printf(FILE *f, const char *fmt, ...)
{
    char stack[2048], *text = stack;
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(stack, sizeof stack, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof stack && (text = malloc((size_t)n + 1))) {
        va_start(ap, fmt);
        vsnprintf(text, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    cli_puts(f, text ? text : stack);
    if (text != stack)
        free(text);
}

size_t cli_width(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

cli_buf cli_name(const char *name)
{
    return cli_name_n(name, strlen(name));
}

/* Prints a name in the characters of the locale. */
static void show(char *out, size_t cap, const char *name, size_t len)
{
    char shown[sizeof(cli_quoted)];
    size_t at = 0;
    if (utf8) {
        pg_printable(out, cap, name, len);
        return;
    }
    pg_printable(shown, cap, name, len);
    for (const char *p = shown; *p && at + 5 < cap; p++) {
        if ((unsigned char)*p < 0x80)
            out[at++] = *p;
        else
            at += (size_t)sprintf(out + at, "\\x%02x", (unsigned)(unsigned char)*p);
    }
    out[at] = 0;
}

cli_buf cli_name_n(const char *name, size_t len)
{
    cli_buf out;
    show(out.s, sizeof out.s, name, len);
    return out;
}

cli_buf cli_count(uint64_t n)
{
    char digits[32];
    cli_buf out;
    const size_t len = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out.s[at++] = ',';
        out.s[at++] = digits[i];
    }
    out.s[at] = 0;
    return out;
}

cli_buf cli_plural(uint64_t n, const char *what)
{
    cli_buf out;
    snprintf(out.s, sizeof out.s, "%.40s %.100s%s", cli_count(n).s, what, n == 1 ? "" : "s");
    return out;
}

cli_buf cli_size(uint64_t n_bytes)
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)n_bytes / 1000;
    size_t u = 0;
    cli_buf out;
    if (n_bytes < 1000) {
        snprintf(out.s, sizeof out.s, "%u B", (unsigned)n_bytes);
        return out;
    }
    for (; v >= 999.95 && u + 1 < sizeof units / sizeof *units; u++)
        v /= 1000;
    snprintf(out.s, sizeof out.s, "%.1f %s", v, units[u]);
    return out;
}

cli_buf cli_shape(const pg_weight *w)
{
    cli_buf out = {"scalar"};
    size_t at = 0;
    for (uint32_t d = 0; d < w->rank; d++)
        at += (size_t)snprintf(out.s + at, sizeof out.s - at, "%s%llu", d ? "\xC3\x97" : "",
                               (unsigned long long)w->dims[d]);
    return out;
}

cli_quoted cli_quote(const char *arg)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "%+,-./:=@_";
    cli_quoted name, out = {""};
    size_t at = 0;
    const char *open = *arg == '-' ? "'./" : "'"; /* an operand that looks like an option */
    if (strlen(arg) + 4 > sizeof name.s)
        return out;
    show(name.s, sizeof name.s, arg, strlen(arg));
    if (strcmp(name.s, arg) != 0)
        return out;
    if (*name.s && *name.s != '-' && name.s[strspn(name.s, safe)] == 0)
        return name;
    for (const char *p = open; *p; p++)
        out.s[at++] = *p;
    for (const char *p = name.s; *p; p++) {
        if (at + 6 >= sizeof out.s)
            return (cli_quoted){""};
        if (*p == '\'')
            at += (size_t)sprintf(out.s + at, "'\\''");
        else
            out.s[at++] = *p;
    }
    out.s[at++] = '\'';
    out.s[at] = 0;
    return out;
}
