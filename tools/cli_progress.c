/* cli_progress.c - progress of a long call: on a terminal one line, redrawn from half a second on;
 * elsewhere a line every ten seconds. Both go to stderr, and neither appears with -q. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define ERASE "\r\033[K"

static const double first_s = 0.5, redraw_s = 0.1, line_s = 10;

static struct {
    int redraws, shown;
    double next;
    double from;     /* when the first bytes had been processed: names and headers have no rate */
    uint64_t n_from; /* bytes processed at that time; 0 before */
} bar;

static double now(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* 0:07, 12:30, 3:05:00 */
static cli_buf duration(double seconds)
{
    cli_buf out;
    const unsigned s = seconds < 359999 ? (unsigned)(seconds + 0.5) : 359999;
    if (s < 3600)
        snprintf(out.s, sizeof out.s, "%u:%02u", s / 60, s % 60);
    else
        snprintf(out.s, sizeof out.s, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    return out;
}

static int columns(void)
{
    struct winsize w = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

/* "12.4 MB/s  ETA 0:07", as soon as there are numbers to compute it from. */
static cli_buf speed(double t, uint64_t n_done, uint64_t n_total, int brief)
{
    cli_buf out = {""};
    const double run = t - bar.from;
    if (n_done <= bar.n_from || run < 1e-6)
        return out;
    const double rate = (double)(n_done - bar.n_from) / run;
    const cli_buf left = duration((double)(n_total - n_done) / rate);
    if (brief)
        snprintf(out.s, sizeof out.s, "  ETA %.20s", left.s);
    else
        snprintf(out.s, sizeof out.s, "  %.20s/s  ETA %.20s", cli_size((uint64_t)rate).s, left.s);
    return out;
}

static void show(void *ctx, uint64_t n_done, uint64_t n_total)
{
    const double t = now();
    (void)ctx;
    if (n_total == 0)
        return;
    if (bar.n_from == 0) {
        bar.from = t;
        bar.n_from = n_done;
    }
    if (t < bar.next)
        return;
    const int brief = bar.redraws && columns() < 60;
    const cli_buf rate = speed(t, n_done, n_total, brief);
    bar.next = t + (bar.redraws ? redraw_s : line_s);
    const unsigned percent = (unsigned)((double)n_done / (double)n_total * 100);
    if (brief)
        cli_printf(stderr, ERASE "%3u%%%s", percent, rate.s);
    else
        cli_printf(stderr, "%s%s%s%3u%%  %s of %s%s%s", bar.redraws ? ERASE : "",
                   bar.redraws ? "" : cli_tool_name(), bar.redraws ? "" : ": ", percent,
                   cli_size(n_done).s, cli_size(n_total).s, rate.s, bar.redraws ? "" : "\n");
    bar.shown = bar.redraws;
    fflush(stderr);
}

pg_progress *cli_progress(void)
{
    static pg_progress p;
    const char *term = getenv("TERM"), *when = cli.progress ? cli.progress : "auto";
    const int always = strcmp(when, "always") == 0;
    if (cli.quiet || strcmp(when, "never") == 0)
        return NULL;
    bar.redraws = always || (isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0);
    bar.n_from = 0;
    bar.next = now() + (always ? 0 : bar.redraws ? first_s : line_s);
    p = (pg_progress){.tell = show};
    return &p;
}

void cli_progress_end(void)
{
    if (bar.shown)
        fputs(ERASE, stderr);
    bar.shown = 0;
    fflush(stderr);
}
