/* pginfo_html.c - one page about one file, which any browser shows, also from a mail or a CI
 * artifact. It has no script and loads nothing (its own policy forbids both, so that a name that
 * slipped through the escaping could do no harm), and is light or dark as the reader's system is.
 *
 * Memory: the statistics of all tensors exist before the first byte is written, because the head of
 * the page sums them up; the page itself is written as it is made. The tree of layers consists of
 * nested <details>, opened and closed where the path of a tensor differs from the previous path.
 * Long models are folded: a browser lays out only what is open. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pginfo.h"

enum {
    DEPTH = 6,          /* levels of the tree; deeper ones stay in the tensor's name */
    OPEN_ROWS = 300,    /* if there are more, they are folded */
    N_DRAWN = 5000,     /* histograms on a page, of the largest tensors */
    STRIP_PERMILLE = 4, /* smaller layers share one piece of the strip of sizes */
};

/* A tensor, or a layer without any. */
typedef struct item {
    size_t weight, layer; /* one of them PG_NONE */
    const char *part[DEPTH + 1];
    size_t len[DEPTH + 1], n; /* path; the last part is the tensor's own name */
} item;

typedef struct page {
    const info *in;
    const info_opts *o;
    pg_page to;
    size_t *items, n_items; /* weight, or n_weights + layer */
    uint64_t draw_from;     /* tensors of fewer bytes get no histogram, ... */
    size_t draw_ties;       /* ... and of as many bytes only the first ones */
    uint64_t n_params, n_bytes, n_bad, n_shown;
    size_t n_zero, n_undrawn;
} page;

/* ---- writing ---------------------------------------------------------------------------------
 */

#define put(p, s)      pg_page_put(&(p)->to, s)
#define putf(p, ...)   pg_page_putf(&(p)->to, __VA_ARGS__)
#define put_text(p, s) pg_page_text(&(p)->to, s, PG_PAGE_ALL)

static void put_text_n(page *p, const char *text, size_t n)
{
    if (n == 0)
        put(p, "(no name)");
    pg_page_text(&p->to, text, n);
}

/* ---- paths -----------------------------------------------------------------------------------
 */

static void add_part(item *t, const char *s, size_t n)
{
    if (t->n < DEPTH) {
        t->part[t->n] = s;
        t->len[t->n++] = n;
    }
}

/* Cuts a name at every `sep`; "layers/" says nothing, and "vars/0" is a name. */
static void add_path(item *t, const char *s, size_t n, char sep)
{
    const char *end = s + n;
    const int odd = n == 0 || s[0] == sep || end[-1] == sep; /* not a path that people wrote */
    while (t->n < DEPTH - 1 && !odd) {
        const char *cut = memchr(s, sep, (size_t)(end - s));
        if (!cut || (cut - s == 4 && strncmp(s, "vars", 4) == 0))
            break;
        if (cut > s && !(cut - s == 6 && strncmp(s, "layers", 6) == 0))
            add_part(t, s, (size_t)(cut - s));
        s = cut + 1;
    }
    add_part(t, s, (size_t)(end - s));
}

static item item_at(const page *p, size_t k)
{
    const size_t n = pg_store_n_weights(p->in->store);
    item t = {.weight = PG_NONE, .layer = PG_NONE};
    if (p->items[k] >= n) {
        t.layer = p->items[k] - n;
        const char *name = pg_store_layer(p->in->store, t.layer)->name;
        add_path(&t, name, strlen(name), '/');
        return t;
    }
    t.weight = p->items[k];
    const pg_weight *w = pg_store_weight(p->in->store, t.weight);
    const pg_layer *l = pg_store_layer(p->in->store, w->layer);
    const size_t in_layer = l ? strlen(l->name) : 0, bare = info_bare_length(w->name);
    if (p->o->sort) {
        add_part(&t, w->name, bare);
    } else if (l && (strncmp(w->name, l->name, in_layer) != 0 || w->name[in_layer] != '/')) {
        add_part(&t, l->name, in_layer);
        add_path(&t, w->name, bare, '/');
    } else {
        add_path(&t, w->name, bare, l ? '/' : '.');
    }
    return t;
}

/* Number of levels that two paths share, without their last parts. */
static size_t common(const item *a, const item *b)
{
    size_t k = 0;
    while (k + 1 < a->n && k + 1 < b->n && a->len[k] == b->len[k] &&
           memcmp(a->part[k], b->part[k], a->len[k]) == 0)
        k++;
    return k;
}

/* Is this a layer to list although it holds nothing, rather than the container of the next one? */
static int is_bare_layer(const page *p, size_t i)
{
    const pg_layer *l = pg_store_layer(p->in->store, i);
    const pg_layer *next = pg_store_layer(p->in->store, i + 1);
    const size_t n = strlen(l->name);
    return l->n_weights == 0 && info_layer_wanted(p->in, p->o, i) &&
           !(next && strncmp(next->name, l->name, n) == 0 && next->name[n] == '/');
}

/* An item to be sorted: for each level of its path, the first item at that level. */
typedef struct spot {
    item t;
    size_t k, at[DEPTH + 1];
} spot;

/* By the enclosing levels, then as in the file. */
static int by_levels(const void *a, const void *b)
{
    const spot *x = a, *y = b;
    const size_t same = common(&x->t, &y->t);
    if (same + 1 < x->t.n && same + 1 < y->t.n) {
        const size_t n = x->t.len[same], m = y->t.len[same];
        const int c = memcmp(x->t.part[same], y->t.part[same], n < m ? n : m);
        return c ? c : n < m ? -1 : 1;
    }
    if (x->t.n != y->t.n)
        return x->t.n < y->t.n ? -1 : 1;
    return x->k < y->k ? -1 : x->k > y->k;
}

static int by_place(const void *a, const void *b)
{
    const spot *x = a, *y = b;
    for (size_t i = 0; i < x->t.n && i < y->t.n; i++)
        if (x->at[i] != y->at[i])
            return x->at[i] < y->at[i] ? -1 : 1;
    return 0;
}

/* Moves the items of a layer together: a nested model lists the trainable weights of all its layers
 * before the others. */
static int join_layers(page *p)
{
    spot *v = calloc(p->n_items + 1, sizeof *v);
    if (!v)
        return -1;
    for (size_t k = 0; k < p->n_items; k++)
        v[k] = (spot){.t = item_at(p, k), .k = k};
    qsort(v, p->n_items, sizeof *v, by_levels);
    for (size_t level = 0; level < DEPTH; level++)
        for (size_t from = 0, to; from < p->n_items; from = to) {
            size_t first = v[from].k;
            for (to = from + 1; to < p->n_items && common(&v[to].t, &v[from].t) > level; to++)
                first = v[to].k < first ? v[to].k : first;
            for (size_t k = from; k < to; k++)
                v[k].at[level] = first;
        }
    qsort(v, p->n_items, sizeof *v, by_place);
    for (size_t k = 0; k < p->n_items; k++)
        v[k].k = p->items[v[k].k];
    for (size_t k = 0; k < p->n_items; k++)
        p->items[k] = v[k].k;
    free(v);
    return 0;
}

/* The rows of the page in order: those that --layers selects, including layers without weights. */
static int list_items(page *p)
{
    const pg_store *s = p->in->store;
    const size_t n_weights = pg_store_n_weights(s), n_layers = pg_store_n_layers(s);
    size_t n = 0, next = 0, *rows = info_rows(p->in, p->o, &n);
    p->items = calloc(n + n_layers + 1, sizeof *p->items);
    for (size_t k = 0; rows && p->items && k <= n; k++) {
        const size_t to = k < n ? pg_store_weight(s, rows[k])->layer : n_layers;
        for (; !p->o->sort && next < n_layers && (to == PG_NONE || next < to); next++)
            if (is_bare_layer(p, next))
                p->items[p->n_items++] = n_weights + next;
        if (k < n)
            p->items[p->n_items++] = rows[k];
    }
    const int ok = rows && p->items;
    free(rows);
    return ok ? join_layers(p) : -1;
}

/* ---- the head --------------------------------------------------------------------------------
 */

static const char style[] =
    ".s{display:flex;height:22px;border-radius:4px;overflow:hidden;margin:.3rem 0}.s i{background:"
    "var(--ac)}.s i:nth-child(even){opacity:.62}.s i.o{background:var(--mu);opacity:.45}\n"
    "details{padding-left:1rem;content-visibility:auto;contain-intrinsic-size:auto 30px}\n"
    "summary{padding:.25rem 0;cursor:pointer;"
    "overflow-wrap:anywhere}summary .m{margin-left:.8rem;font-size:13px}\n"
    ".e{padding:.25rem 0 .25rem 1rem;margin:0}\n"
    "table{border-collapse:collapse;width:100%;table-layout:fixed;font-variant-numeric:"
    "tabular-nums}th,td:nth-child(n+3){white-space:nowrap}th{text-align:left;color:var(--mu);font-"
    "weight:500}\n"
    "td{border-bottom:1px solid var(--ln);overflow-wrap:anywhere}th,td{padding:2px 6px 2px 0;"
    "font-size:13px}td:first-child{padding-left:1rem}\n"
    "td:nth-child(n+4),th:nth-child(n+4){text-align:right}td:nth-child(2),th:nth-child(2){width:"
    "112px}td:nth-child(3),th:nth-child(3){width:62px}td:nth-child(n+4),th:nth-child(n+4){width:"
    "76px}td:nth-child(n+9),th:nth-child(n+9){width:56px}td:nth-child(11),th:nth-child(11){width:"
    "130px}td:nth-child(12),th:nth-child(12){width:72px}\n"
    "thead th{border-bottom:1px solid var(--ln)}.h{position:sticky;top:0;background:var(--bg);"
    "z-index:1}svg{height:26px;width:122px;vertical-align:middle;fill:var(--ac)}\n"
    "@media(max-width:1000px){td:nth-child(7),th:nth-child(7),td:nth-child(8),th:nth-child(8),"
    "td:nth-child(12),th:nth-child(12){display:none}}\n"
    "@media(max-width:700px){td:nth-child(3),th:nth-child(3),td:nth-child(5),th:nth-child(5),"
    "td:nth-child(6),th:nth-child(6),td:nth-child(9),th:nth-child(9){display:none}}\n";

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void put_head(page *p)
{
    const char *writer = pg_store_writer(p->in->store);
    pg_page_begin(&p->to, file_name(p->in->path), "pginfo", style);
    put(p, "<p class=m>");
    put_text(p, info_format_words(p->in->format));
    if (writer) {
        put(p, " · ");
        put_text(p, writer);
    }
    if (p->in->file_bytes)
        putf(p, " · %s on disk", cli_size(p->in->file_bytes).s);
    putf(p, " · written by pginfo %s</p>\n", pg_version());
}

static void put_figures(page *p)
{
    put(p, "<div class=k>");
    pg_page_figure(&p->to, cli_count(p->n_params).s, "parameters", 0);
    if (p->in->counts.known && !p->o->layers)
        pg_page_figure(&p->to, cli_count(p->in->counts.non_trainable).s, "not trainable", 0);
    pg_page_figure(&p->to, cli_count(p->n_shown).s, p->n_shown == 1 ? "tensor" : "tensors", 0);
    if (p->in->n_weighted && !p->o->layers)
        pg_page_figure(&p->to, cli_count(p->in->n_weighted).s, "layers with weights", 0);
    pg_page_figure(&p->to, cli_size(p->n_bytes).s, "of weights", 0);
    pg_page_figure(&p->to, cli_count(p->n_bad).s, "NaN or infinite", p->n_bad > 0);
    pg_page_figure(&p->to, cli_count(p->n_zero).s,
                   p->n_zero == 1 ? "all-zero tensor" : "all-zero tensors", p->n_zero > 0);
    size_t n_beside;
    (void)pg_store_beside(p->in->store, &n_beside);
    if (pg_store_n_state(p->in->store) > n_beside)
        pg_page_figure(&p->to, cli_count(pg_store_n_state(p->in->store) - n_beside).s,
                       "optimizer tensors", 0);
    put(p, "</div>\n");
}

static void put_next(page *p)
{
    const cli_hint next = cli_hint_of(&p->in->found.next);
    if (p->in->found.unsettled && p->in->verdict == PG_V_WRAPPER) {
        put(p, "<p>To order its layers, pgunwrap needs the one-device model: ");
        put_text(p, p->in->found.unsettled);
        put(p, "</p>\n");
    }
    if (next.s[0]) {
        put(p, "<p>Next: <code>");
        put_text(p, next.s);
        put(p, "</code></p>\n");
    } else if (p->n_bad) {
        put(p, "<p>Next: take an earlier checkpoint; a loss that became NaN left these "
               "values.</p>\n");
    } else if ((p->in->verdict == PG_V_SINGLE || p->in->verdict == PG_V_NESTED) &&
               strncmp(p->in->format, "keras", 5) == 0 && *cli_quote(p->in->path).s) {
        put(p, "<p>Next: prove that it fits your model: ");
        put(p, "<code>pgcheck --model model.json ");
        put_text(p, cli_quote(p->in->path).s);
        put(p, "</code>");
        put(p, "</p>\n");
    }
}

/* The values for --part, if it is needed. */
static void put_parts(page *p)
{
    const size_t n = p->in->question.code ? pg_store_n_parts(p->in->store) : 0;
    put(p, n ? "<ul>" : "");
    for (size_t i = 0; i < n; i++) {
        const pg_part *part = pg_store_part(p->in->store, i);
        put(p, "<li>");
        put_text(p, part->path);
        putf(p, ": %s, %s", part->kind, cli_plural(part->n_tensors, "tensor").s);
    }
    put(p, n ? "</ul>\n" : "");
}

static void put_verdict(page *p)
{
    const info *in = p->in;
    const int good = in->verdict == PG_V_SINGLE && !in->found.unsettled && p->n_bad == 0;
    putf(p, "<div class=\"v %s\"><b>", good ? "g" : in->verdict == PG_V_NESTED ? "" : "w");
    put_text(p, in->question.code                                    ? in->question.msg
                : in->verdict == PG_V_SINGLE && !in->found.unsettled ? "not wrapped"
                                                                     : in->found.reason);
    put(p, in->verdict == PG_V_WRAPPER && !in->found.certain ? " (likely)</b>" : "</b>");
    if (in->verdict == PG_V_WRAPPER && in->found.replicas && in->found.template_name) {
        put(p, "<p>The one-device model is in it as \xE2\x80\x9C");
        put_text(p, in->found.template_name);
        put(p, "\xE2\x80\x9D; the file does not load into that model as it is.</p>\n");
    }
    if (p->n_bad)
        putf(p, "<p class=w>%s %s NaN or infinite.</p>\n", cli_plural(p->n_bad, "value").s,
             p->n_bad == 1 ? "is" : "are");
    put_parts(p);
    put(p, in->found.n_evidence ? "<ul>" : "");
    for (size_t i = 0; i < in->found.n_evidence; i++) {
        put(p, "<li>");
        put_text(p, in->found.evidence[i]);
    }
    put(p, in->found.n_evidence ? "</ul>\n" : "");
    put_next(p);
    put(p, "</div>\n");
}

/* ---- sizes at a glance -----------------------------------------------------------------------
 */

static uint64_t bytes_of(const page *p, const item *t)
{
    return t->weight == PG_NONE ? 0 : pg_store_weight(p->in->store, t->weight)->n_bytes;
}

static void put_piece(page *p, const item *t, uint64_t n_bytes, size_t n_small)
{
    if (n_bytes == 0)
        return;
    putf(p, "<i%s style=\"flex:%.6f\" title=\"", n_small ? " class=o" : "",
         (double)n_bytes / (double)p->n_bytes);
    if (n_small)
        put_text(p, cli_plural(n_small, "small layer").s);
    for (size_t k = 0; !n_small && k + 1 < t->n; k++) {
        put(p, k ? "/" : "");
        put_text_n(p, t->part[k], t->len[k]);
    }
    putf(p, "%s %s\"></i>", !n_small && t->n < 2 ? "tensor" : "", cli_size(n_bytes).s);
}

/* Bytes of the layer that starts at item *k, which moves past it; 0 at the end. */
static uint64_t next_layer(const page *p, size_t *k, item *first)
{
    uint64_t n_bytes = 0;
    for (; *k < p->n_items; (*k)++) {
        const item t = item_at(p, *k);
        if (n_bytes == 0)
            *first = t;
        else if (t.n != first->n || common(&t, first) + 1 < t.n)
            break;
        n_bytes += bytes_of(p, &t);
    }
    return n_bytes;
}

static int is_small(const page *p, uint64_t n_bytes)
{
    return (double)n_bytes * 1000 < (double)p->n_bytes * STRIP_PERMILLE;
}

/* One piece per layer; neighbouring layers too small to be seen share one. Nothing if all are too
 * small. */
static void put_strip(page *p)
{
    uint64_t n, small = 0;
    size_t n_small = 0, n_large = 0;
    item first = {0};
    for (size_t k = 0; (n = next_layer(p, &k, &first)) > 0;)
        n_large += !is_small(p, n);
    if (n_large < 2 || p->o->sort)
        return;
    put(p, "<div class=s>");
    for (size_t k = 0; (n = next_layer(p, &k, &first)) > 0;) {
        if (is_small(p, n)) {
            small += n;
            n_small++;
            continue;
        }
        put_piece(p, NULL, small, n_small);
        small = n_small = 0;
        put_piece(p, &first, n, 0);
    }
    put_piece(p, NULL, small, n_small);
    put(p, "</div>\n<p class=m>Bytes per layer, in the order of the file.</p>\n");
}

/* ---- the tree --------------------------------------------------------------------------------
 */

static void put_histogram(page *p, const unsigned char *heights)
{
    put(p, "<svg viewBox=\"0 0 40 24\" preserveAspectRatio=none><path d=\"M0 24");
    for (size_t i = 0; i < INFO_BINS;) {
        size_t run = 1;
        while (i + run < INFO_BINS && heights[i + run] == heights[i])
            run++;
        putf(p, "V%dh%zu", INFO_HEIGHT - heights[i], run);
        i += run;
    }
    put(p, "V24z\"/></svg>");
}

static void put_number(page *p, double v)
{
    putf(p, "<td>%s", info_number(v).s);
}

static void put_row(page *p, const item *t)
{
    const pg_weight *w = pg_store_weight(p->in->store, t->weight);
    const pg_stats *s = &p->in->stats[t->weight];
    const double zeros = s->n ? 100 * (double)s->n_zero / (double)s->n : 0;
    put(p, "<tr><td>");
    put_text_n(p, t->part[t->n - 1], t->len[t->n - 1]);
    putf(p, "<td>%s<td>%s<td>%s", cli_shape(w).s, pg_dtype_name(w->dtype), cli_count(s->n).s);
    put_number(p, s->min);
    put_number(p, s->max);
    put_number(p, s->mean);
    put_number(p, s->std);
    putf(p, "<td%s>%.0f%%", s->n && s->n_zero == s->n ? " class=w" : "",
         s->n_zero < s->n && zeros > 99 ? 99.0 : zeros);
    putf(p, "<td%s>%s<td>", s->n_nan + s->n_inf ? " class=w" : "",
         cli_count(s->n_nan + s->n_inf).s);
    const int tie = p->draw_from && w->n_bytes == p->draw_from;
    if ((!tie || p->draw_ties) && w->n_bytes >= p->draw_from && s->n > s->n_nan + s->n_inf)
        put_histogram(p, p->in->heights[t->weight]);
    p->draw_ties -= tie && p->draw_ties;
    putf(p, "<td>%08x\n", (unsigned)s->crc32);
}

/* Opens level `level` at item k, and sums up its contents. */
static void open_level(page *p, size_t k, const item *first, size_t level)
{
    size_t n = 0;
    uint64_t n_params = 0, n_bytes = 0, n_bad = 0;
    for (; k < p->n_items; k++) {
        const item t = item_at(p, k);
        if (t.n <= level + 1 || common(&t, first) <= level)
            break;
        if (t.weight == PG_NONE)
            continue;
        const pg_stats *s = &p->in->stats[t.weight];
        n++;
        n_params += s->n;
        n_bytes += bytes_of(p, &t);
        n_bad += s->n_nan + s->n_inf;
    }
    put(p, p->n_items > OPEN_ROWS ? "<details><summary>" : "<details open><summary>");
    put_text_n(p, first->part[level], first->len[level]);
    putf(p, "<span class=m>%s · %s · %s</span>", cli_plural(n, "tensor").s,
         cli_plural(n_params, "parameter").s, cli_size(n_bytes).s);
    if (n_bad)
        putf(p, " <span class=w>%s NaN or infinite</span>", cli_count(n_bad).s);
    put(p, "</summary>\n");
}

static void put_tree(page *p)
{
    item last = {0};
    size_t open = 0;
    int in_table = 0;
    put(p, "<table class=h><thead><tr><th>tensor<th>shape<th>type<th>params<th>min<th>max<th>mean"
           "<th>std<th>zeros<th>NaN/inf<th>values<th>CRC-32</table>\n");
    for (size_t k = 0; k < p->n_items && p->to.st == PG_OK; k++) {
        const item t = item_at(p, k);
        const size_t same = k ? common(&t, &last) : 0;
        const size_t keep = same < open ? same : open;
        if (in_table && (keep < open || t.n - 1 > keep || t.weight == PG_NONE)) {
            put(p, "</table>\n");
            in_table = 0;
        }
        for (; open > keep; open--)
            put(p, "</details>\n");
        for (; open + 1 < t.n; open++)
            open_level(p, k, &t, open);
        if (t.weight == PG_NONE) {
            put(p, "<p class=e>");
            put_text_n(p, t.part[t.n - 1], t.len[t.n - 1]);
            put(p, " <span class=m>no weights</span></p>\n");
        } else {
            put(p, in_table ? "" : "<table>");
            in_table = 1;
            put_row(p, &t);
        }
        last = t;
    }
    put(p, in_table ? "</table>\n" : "");
    for (; open; open--)
        put(p, "</details>\n");
}

/* ---- the page --------------------------------------------------------------------------------
 */

static int by_bytes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Sums over the rows shown, and the size from which tensors get a histogram. */
static int sum_up(page *p)
{
    uint64_t *sizes = calloc(p->n_items + 1, sizeof *sizes);
    if (!sizes)
        return -1;
    for (size_t k = 0; k < p->n_items; k++) {
        const item t = item_at(p, k);
        if (t.weight == PG_NONE)
            continue;
        const pg_stats *s = &p->in->stats[t.weight];
        sizes[p->n_shown++] = bytes_of(p, &t);
        p->n_params += s->n;
        p->n_bytes += bytes_of(p, &t);
        p->n_bad += s->n_nan + s->n_inf;
        p->n_zero += s->n && s->n_zero == s->n;
    }
    if (p->n_shown > N_DRAWN) {
        qsort(sizes, (size_t)p->n_shown, sizeof *sizes, by_bytes);
        p->draw_from = sizes[N_DRAWN - 1];
        for (p->draw_ties = N_DRAWN; sizes[N_DRAWN - p->draw_ties] > p->draw_from;)
            p->draw_ties--;
        p->n_undrawn = (size_t)p->n_shown - N_DRAWN;
    }
    free(sizes);
    return 0;
}

static void put_page(page *p)
{
    put_head(p);
    put_figures(p);
    put_verdict(p);
    put_strip(p);
    if (p->n_undrawn)
        putf(p, "<p class=m>Histograms of the largest tensors only; %s have none.</p>\n",
             cli_count(p->n_undrawn).s);
    put_tree(p);
    put(p, "</html>\n");
}

static int report_page(const page *p, uint64_t n_bytes)
{
    if (cli.quiet)
        return CLI_OK;
    cli_printf(stdout, "%s: %s, %s parameters, %s, opens in any browser\n", cli_name(p->o->html).s,
               cli_plural(p->n_shown, "tensor").s, cli_count(p->n_params).s, cli_size(n_bytes).s);
    if (p->n_shown && 2 * p->n_zero >= p->n_shown)
        cli_printf(stdout, "note: %s %s all zero: untrained weights?\n",
                   cli_plural(p->n_zero, "tensor").s, p->n_zero == 1 ? "is" : "are");
    return CLI_OK;
}

int info_write_html(const info *in, const info_opts *o)
{
    page p = {.in = in, .o = o};
    const pg_file_opts file = {.force = o->force, .input = in->path, .cancel = cli_cancel()};
    uint64_t n_bytes = 0;
    if (in->err.code != PG_OK)
        return cli_fail(&in->err);
    if (list_items(&p) || sum_up(&p)) {
        free(p.items);
        return cli_complain(NULL, NULL, "out of memory");
    }
    if (p.n_items == 0 && o->layers) {
        free(p.items);
        return info_no_layer(in, o);
    }
    p.to.st = pg_file_create(&p.to.file, o->html, &file, &p.to.err);
    if (p.to.st == PG_OK)
        put_page(&p);
    if (p.to.st == PG_OK)
        p.to.st = pg_file_commit(p.to.file, &n_bytes, &p.to.err);
    pg_file_close(p.to.file);
    free(p.items);
    return p.to.st == PG_OK ? cli_worse(in->status, report_page(&p, n_bytes)) : cli_fail(&p.to.err);
}
