/* chart.c - see chart.h. A drawing has 520 x 212 units, which the page scales to the available
 * width. Long runs are thinned: a line has no more points than a screen shows. */
#include "train/fit/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pg/store.h"

enum { WIDTH = 520, HEIGHT = 212, LEFT = 56, RIGHT = 512, TOP = 10, BOTTOM = 192, MOST = 260 };

const char pg__chart_style[] =
    ":root{--vl:#c2410c}@media(prefers-color-scheme:dark){:root{--vl:#ff9d5c}}\n"
    ".c{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:1rem}\n"
    ".c figure{margin:0;background:var(--bx);border-radius:6px;padding:.7rem .8rem}\n"
    ".c figcaption{display:flex;flex-wrap:wrap;gap:0 1.1rem;font-size:13px;color:var(--mu)}\n"
    ".c figcaption b{color:var(--fg);font-size:14px}.c "
    "i{display:inline-block;width:14px;height:3px;"
    "border-radius:2px;margin-right:.35rem;vertical-align:middle}\n"
    ".c .l0{background:var(--ac);stroke:var(--ac)}.c .l1{background:var(--vl);stroke:var(--vl)}\n"
    ".c svg{display:block;width:100%;height:auto;font:11px system-ui,sans-serif;fill:var(--mu);"
    "overflow:visible}\n"
    ".c path,.c circle{fill:none;stroke-width:1.8;stroke-linejoin:round;pointer-events:none}\n"
    ".c path.a{stroke:var(--ln);stroke-width:1}.c path.b{stroke:var(--go);stroke-width:1;"
    "stroke-dasharray:3 3}\n"
    ".c rect{fill:transparent}.c rect:hover{fill:var(--mu);fill-opacity:.18}\n";

pg__figure pg__figure_of(double v)
{
    pg__figure f;
    if (isnan(v))
        (void)snprintf(f.s, sizeof f.s, "NaN");
    else if (v == 0 || (fabs(v) >= 1e-3 && fabs(v) < 1e4))
        (void)snprintf(f.s, sizeof f.s, "%.4g", v);
    else
        (void)snprintf(f.s, sizeof f.s, "%.3g", v);
    return f;
}

typedef struct scale {
    double low, high;
    int log;
} scale;

static double at(const pg__chart *c, size_t line, size_t i)
{
    return c->lines[line][i * c->stride];
}

static int has(const pg__chart *c, size_t line, size_t i)
{
    return c->lines[line] && isfinite(at(c, line, i));
}

/* Chooses a logarithmic scale for numbers of very different size. */
static scale scale_of(const pg__chart *c)
{
    scale s = {INFINITY, -INFINITY, 0};
    for (size_t k = 0; k < PG_CHART_LINES; k++)
        for (size_t i = 0; i < c->n; i++)
            if (has(c, k, i)) {
                s.low = fmin(s.low, at(c, k, i));
                s.high = fmax(s.high, at(c, k, i));
            }
    if (!(s.low <= s.high))
        return (scale){0, 1, 0};
    s.log = s.low > 0 && s.high / s.low >= 30;
    if (s.log)
        return (scale){log10(s.low), log10(s.high), 1};
    const double room = s.high > s.low ? 0.05 * (s.high - s.low) : fabs(s.high) * 0.5 + 1e-9;
    return (scale){s.low >= 0 && s.low < 0.3 * s.high ? 0 : s.low - room, s.high + room, 0};
}

static double y_of(const scale *s, double v)
{
    const double share = ((s->log ? log10(v) : v) - s->low) / (s->high - s->low);
    return BOTTOM - share * (BOTTOM - TOP);
}

static double x_of(const pg__chart *c, double i)
{
    return c->n > 1 ? LEFT + i / (double)(c->n - 1) * (RIGHT - LEFT) : (LEFT + RIGHT) / 2.0;
}

/* 1, 2 or 5 times a power of ten. */
static double round_step(double rough)
{
    const double power = pow(10, floor(log10(rough))), lead = rough / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

static void put_line_at(pg_page *p, double y, double v)
{
    pg_page_putf(p, "<path class=a d=\"M%d %.1fH%d\"/><text x=%d y=%.1f text-anchor=end>%s</text>",
                 LEFT, y, RIGHT, LEFT - 6, y + 4, pg__figure_of(v).s);
}

static void put_values_axis(pg_page *p, const scale *s)
{
    const double step =
        s->log ? fmax(1, ceil((s->high - s->low) / 5)) : round_step((s->high - s->low) / 6);
    for (double v = ceil(s->low / step) * step; v <= s->high + step * 1e-6; v += step) {
        const double shown = s->log ? pow(10, v) : fabs(v) < step * 1e-6 ? 0 : v;
        put_line_at(p, y_of(s, shown), shown);
    }
}

static void put_epochs_axis(pg_page *p, const pg__chart *c)
{
    const size_t step = (size_t)fmax(1, round_step((double)c->n / 8));
    for (size_t i = 0; i < c->n; i++)
        if ((c->first + i + 1) % step == 0 || (step > 1 && i == 0 && c->n < 4))
            pg_page_putf(p, "<text x=%.1f y=%d text-anchor=middle>%zu</text>", x_of(c, (double)i),
                         BOTTOM + 16, c->first + i + 1);
}

/* Epochs per point. */
static size_t thinning(const pg__chart *c)
{
    return (c->n + MOST - 1) / MOST;
}

static void put_hover(pg_page *p, const pg__chart *c)
{
    const size_t each = thinning(c);
    const double wide =
        c->n > 1 ? (double)each / (double)(c->n - 1) * (RIGHT - LEFT) : RIGHT - LEFT;
    for (size_t i = each - 1; i < c->n; i += each) {
        pg_page_putf(p, "<rect x=%.1f y=%d width=%.1f height=%d><title>epoch %zu",
                     x_of(c, (double)i) - wide / 2, TOP, wide, BOTTOM - TOP, c->first + i + 1);
        for (size_t k = 0; k < PG_CHART_LINES; k++)
            if (has(c, k, i)) {
                pg_page_put(p, "\n");
                pg_page_text(p, c->names[k], PG_PAGE_ALL);
                pg_page_putf(p, " %s", pg__figure_of(at(c, k, i)).s);
            }
        pg_page_put(p, "</title></rect>\n");
    }
}

/* Bridges epochs without a value (no validation); NaN leaves a gap. */
static void put_line(pg_page *p, const pg__chart *c, const scale *s, size_t line)
{
    const size_t each = thinning(c);
    size_t last = PG_NONE, n = 0;
    if (!c->lines[line])
        return;
    pg_page_putf(p, "<path class=l%zu d=\"", line);
    for (size_t i = each - 1; i < c->n; i += each) {
        if (!has(c, line, i))
            continue;
        pg_page_putf(p, "%c%.1f %.1f", n++ ? 'L' : 'M', x_of(c, (double)i),
                     y_of(s, at(c, line, i)));
        last = i;
    }
    pg_page_put(p, "\"/>");
    if (last != PG_NONE)
        pg_page_putf(p, "<circle class=l%zu cx=%.1f cy=%.1f r=2.5 />\n", line,
                     x_of(c, (double)last), y_of(s, at(c, line, last)));
}

static void put_caption(pg_page *p, const pg__chart *c, int is_log)
{
    pg_page_put(p, "<figcaption><b>");
    pg_page_text(p, c->title, PG_PAGE_ALL);
    pg_page_put(p, "</b>");
    for (size_t k = 0; k < PG_CHART_LINES; k++) {
        if (!c->lines[k])
            continue;
        pg_page_putf(p, "<span><i class=l%zu></i>", k);
        pg_page_text(p, c->names[k], PG_PAGE_ALL);
        for (size_t i = c->n; i-- > 0;)
            if (has(c, k, i)) {
                pg_page_putf(p, " %s", pg__figure_of(at(c, k, i)).s);
                break;
            }
        pg_page_put(p, "</span>");
    }
    pg_page_put(p, is_log ? "<span>logarithmic</span></figcaption>" : "</figcaption>");
}

void pg__chart_put(pg_page *p, const pg__chart *c)
{
    const scale s = scale_of(c);
    pg_page_put(p, "<figure>");
    put_caption(p, c, s.log);
    pg_page_putf(p, "<svg viewBox=\"0 0 %d %d\" role=img>\n", WIDTH, HEIGHT);
    put_values_axis(p, &s);
    put_epochs_axis(p, c);
    if (c->marked != PG_NONE && c->marked < c->n)
        pg_page_putf(p, "<path class=b d=\"M%.1f %dV%d\"/>", x_of(c, (double)c->marked), TOP,
                     BOTTOM);
    put_hover(p, c);
    for (size_t k = 0; k < PG_CHART_LINES; k++)
        put_line(p, c, &s, k);
    pg_page_put(p, "</svg></figure>\n");
}
