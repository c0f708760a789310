/* pgdiff - are two checkpoints the same model, and if not, what changed? */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json_out.h"
#include "table.h"

enum { MANY = 40, BAR = 14 }; /* rows beyond which equal ones are only counted; longest bar */

static const char *abs_text, *rel_text;
static pg_compare_opts o;
static unsigned max_listed, top;

static const cli_opt options[] = {
    {'d', "delta", "ABS", NULL, &abs_text, NULL, NULL, "elements are equal if |a-b| <= ABS"},
    {'p', "relative", "REL", NULL, &rel_text, NULL, NULL,
     "elements are equal if |a-b| <= REL * |a|"},
    {'n', "count", "COUNT", NULL, NULL, &max_listed, NULL,
     "list at most COUNT tensors that differ"},
    {0, "by-order", NULL, &o.by_order, NULL, NULL, NULL, "pair tensors by position, not by name"},
    {0, "ignore", "GLOB", NULL, &o.ignore, NULL, NULL, "leave out tensors whose name matches"},
    {0, "part-b", "KEY", NULL, &o.part_b, NULL, NULL,
     "the part of B; --part is then the part of A"},
    {0, "top", "N", NULL, NULL, &top, NULL,
     "list the N tensors that changed most, the most changed first"},
    CLI_RULES,
    {0},
};

static const cli_example examples[] = {
    {"pgdiff before.h5 after.h5", "what did training change?"},
    {"pgdiff parallel.h5 single.h5", "is the same model inside the wrapper?"},
    {"pgdiff -q -d 1e-6 model.h5 model.safetensors", "equal up to rounding? ask the exit status"},
    {0},
};

static const char *const about[] = {
    "Tensors are paired by layer and variable, across formats; the file of a parallel wrapper is\n"
    "compared as the one-device model inside it. Values of different types are compared as\n"
    "numbers; a NaN equals only the same NaN. Optimizer state and model descriptions are not\n"
    "compared.",
    "For each tensor: the share of elements that changed, the largest and the root mean square\n"
    "difference, the difference relative to A (L2 norms), and the cosine of the angle between\n"
    "both. Option letters are those of h5diff: -n limits the list; there is no dry run.",
    NULL,
};

static const cli_tool tool = {
    .name = "pgdiff",
    .operands = "A B",
    .summary = "compares two checkpoints tensor by tensor, across formats and through wrappers",
    .examples = examples,
    .about = about,
    .status_1 = "they differ",
    .opts = options,
    .groups = CLI_READS_PARTS,
    .min_operands = 2,
    .max_operands = 2,
};

static double tolerance(const char *text, const char *name)
{
    char *end = NULL;
    if (!text)
        return 0;
    const double v = strtod(text, &end);
    if (*end || end == text || !isfinite(v) || v < 0) {
        cli_complain(NULL, NULL, "--%s: \"%s\" is not a number from 0", name, cli_name(text).s);
        exit(CLI_TROUBLE);
    }
    return v;
}

/* ---- JSON ---- */

static void put_weight(const char *side, const pg_weight *w)
{
    printf(", \"shape_%s\": ", side);
    if (!w->name)
        fputs("null", stdout);
    for (uint32_t d = 0; w->name && d < w->rank; d++)
        printf("%s%llu", d ? ", " : "[", (unsigned long long)w->dims[d]);
    if (w->name)
        fputs(w->rank ? "]" : "[]", stdout);
    printf(", \"dtype_%s\": ", side);
    json_quoted(w->name ? pg_dtype_name(w->dtype) : NULL);
}

static void print_json(const pg_comparison *c, const char *a, const char *b)
{
    static const char *const words[] = {"equal", "differs", "shape", "dtype", "only_a", "only_b"};
    fputs("{\"a\": ", stdout);
    json_quoted(a);
    json_member("b", b);
    printf(", \"equal\": %s", c->n_equal == c->n_rows ? "true" : "false");
    printf(", \"through_wrapper\": %s", c->through_wrapper ? "true" : "false");
    json_count("tensors_equal", 1, c->n_equal);
    json_count("tensors_differ", 1, c->n_differ);
    json_count("tensors_only_a", 1, c->n_only_a);
    json_count("tensors_only_b", 1, c->n_only_b);
    json_count("parameters", 1, c->n_params);
    fputs(", \"tensors\": [", stdout);
    for (size_t i = 0; i < c->n_rows; i++) {
        const pg_compare_row *r = &c->rows[i];
        const int values = r->kind == PG_ROW_EQUAL || r->kind == PG_ROW_DIFFERS;
        printf("%s\n  {\"name\": ", i ? "," : "");
        json_quoted(r->name);
        json_member("status", words[r->kind]);
        put_weight("a", &r->a);
        put_weight("b", &r->b);
        json_count("elements", 1, r->n);
        json_count("changed", values, r->n_changed);
        json_count("nan", values, r->n_nan);
        json_number("max_abs", values ? r->max_abs : (double)NAN);
        json_number("rms", values ? r->rms : (double)NAN);
        json_number("rel_l2", values ? r->rel_l2 : (double)NAN);
        json_number("cosine", values ? r->cosine : (double)NAN);
        putchar('}');
    }
    puts("]}");
}

/* ---- text ---- */

/* How much a row changed, for the order of --top and the bars: relative to the old values; if they
 * are all zero, less than every change that can be measured. */
static double change(const pg_compare_row *r)
{
    if (r->kind != PG_ROW_DIFFERS)
        return r->kind == PG_ROW_EQUAL ? -1 : (double)INFINITY;
    return isnan(r->rel_l2) ? 0 : r->rel_l2;
}

static int by_change(const void *a, const void *b)
{
    const pg_compare_row *x = *(const pg_compare_row *const *)a;
    const pg_compare_row *y = *(const pg_compare_row *const *)b;
    const double u = change(x), v = change(y);
    return u < v ? 1 : u > v ? -1 : x < y ? -1 : x > y;
}

/* Name column of a row: "~ conv1/kernel". */
static cli_buf marked(const pg_compare_row *r)
{
    cli_buf out;
    const cli_buf name = cli_name(r->name);
    snprintf(out.s, sizeof out.s, "%c %.*s", "=~!!-+"[r->kind], (int)sizeof out.s - 3, name.s);
    return out;
}

/* A number as a cell, or a dash. */
#define ADD_NUMBER(t, fmt, v)                  \
    do {                                       \
        char text_[40];                        \
        snprintf(text_, sizeof text_, fmt, v); \
        table_add(t, isnan(v) ? "–" : text_);  \
    } while (0)

/* "91 %"; only all and nothing print as 100 % and 0 %. */
static void add_share(table *t, uint64_t part, uint64_t all)
{
    const double share = all ? 100 * (double)part / (double)all : 0;
    if (part && share < 0.5)
        table_add(t, "< 1 %");
    else if (part < all && share >= 99.5)
        table_add(t, "> 99 %");
    else
        ADD_NUMBER(t, "%.0f %%", share);
}

static void add_values(table *t, const pg_compare_row *r, double largest)
{
    char bar[3 * BAR + 1] = "";
    table_add(t, marked(r).s);
    add_share(t, r->n_changed, r->n);
    if (r->kind == PG_ROW_EQUAL) {
        for (int i = 0; i < 5; i++)
            table_add(t, "");
        return;
    }
    ADD_NUMBER(t, "%.2e", r->max_abs);
    ADD_NUMBER(t, "%.1e", r->rms);
    if (isnan(r->rel_l2))
        table_add(t, "was zero");
    else if (r->rel_l2 < 0.001)
        ADD_NUMBER(t, "%.1g %%", 100 * r->rel_l2);
    else if (r->rel_l2 < 9.995)
        ADD_NUMBER(t, "%.1f %%", 100 * r->rel_l2);
    else
        ADD_NUMBER(t, "× %.3g", r->rel_l2);
    ADD_NUMBER(t, "%.5f", r->cosine);
    const double part = isnan(r->rel_l2) || !(largest > 0) ? 0.1 : r->rel_l2 / largest;
    for (int i = 0; i == 0 || i < (int)(part * BAR + 0.5); i++)
        strcat(bar, "█");
    table_add(t, bar);
}

/* The rows to list one by one, in the order of the list. */
typedef struct listing {
    const pg_compare_row **rows;
    size_t n, n_values; /* n_values: with numbers */
    size_t n_left_out;  /* differ, but exceed the limit */
    double largest;
} listing;

static int is_value(const pg_compare_row *r)
{
    return r->kind == PG_ROW_EQUAL || r->kind == PG_ROW_DIFFERS;
}

static int select_rows(listing *l, const pg_comparison *c)
{
    const size_t limit = top ? top : max_listed ? max_listed : (size_t)-1;
    size_t n_differ = 0, n_value_differs = 0;
    l->rows = calloc(c->n_rows + 1, sizeof *l->rows);
    if (!l->rows)
        return -1;
    for (size_t i = 0; i < c->n_rows; i++)
        n_value_differs += c->rows[i].kind == PG_ROW_DIFFERS;
    const int show_equal = (n_value_differs && c->n_rows <= MANY && !top) || cli.verbose;
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].kind != PG_ROW_EQUAL || show_equal)
            l->rows[l->n++] = &c->rows[i];
    if (top)
        qsort(l->rows, l->n, sizeof *l->rows, by_change);
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        const pg_compare_row *r = l->rows[i];
        if (r->kind != PG_ROW_EQUAL && n_differ++ >= limit) {
            l->n_left_out++;
            continue;
        }
        l->rows[kept++] = r;
        l->n_values += is_value(r) != 0;
        if (r->kind == PG_ROW_DIFFERS && r->rel_l2 > l->largest && !isinf(r->rel_l2))
            l->largest = r->rel_l2;
    }
    l->n = kept;
    return 0;
}

/* "- head/kernel   512×1000   only in a.h5" */
static void add_structure(table *t, const pg_compare_row *r, const char *a, const char *b)
{
    char text[600];
    const char *arrow = "→";
    table_add(t, marked(r).s);
    if (r->kind == PG_ROW_ONLY_A || r->kind == PG_ROW_ONLY_B) {
        const int in_a = r->kind == PG_ROW_ONLY_A;
        table_add(t, cli_shape(in_a ? &r->a : &r->b).s);
        snprintf(text, sizeof text, "only in %s", cli_name(in_a ? a : b).s);
        table_add(t, text);
        return;
    }
    if (r->kind == PG_ROW_SHAPE)
        snprintf(text, sizeof text, "%s %s %s", cli_shape(&r->a).s, arrow, cli_shape(&r->b).s);
    else
        snprintf(text, sizeof text, "%s %s %s", pg_dtype_name(r->a.dtype), arrow,
                 pg_dtype_name(r->b.dtype));
    table_add(t, text);
    table_add(t, r->kind == PG_ROW_SHAPE ? "shape differs" : "type differs");
}

static int print_rows(const pg_comparison *c, const char *a, const char *b)
{
    static const char *const heading[] = {"  tensor", "changed", "max |Δ|", "rms Δ",
                                          "rel L2",   "cosine",  ""};
    table values = {.n_cols = 7, .right = 0x3Eu}, structure = {.n_cols = 3};
    listing l = {0};
    int status = select_rows(&l, c);
    for (size_t i = 0; i < 7 && l.n_values; i++)
        table_add(&values, heading[i]);
    for (size_t i = 0; i < l.n && status == 0; i++)
        if (is_value(l.rows[i]))
            add_values(&values, l.rows[i], l.largest);
        else
            add_structure(&structure, l.rows[i], a, b);
    if (status == 0)
        status = table_print(&structure, "", 0);
    if (status == 0)
        status = table_print(&values, "", 0);
    if (status == 0 && l.n_left_out)
        cli_printf(stdout, "  %s not listed\n", cli_plural(l.n_left_out, "tensor").s);
    table_free(&values);
    table_free(&structure);
    free(l.rows);
    return status;
}

/* Layers without a changed tensor, if others have one. */
static void print_frozen(const pg_comparison *c)
{
    pg_compare_layer l;
    size_t n = 0;
    for (size_t i = 0; i < c->n_rows;) {
        i = pg_comparison_layer(&l, c, i);
        if (l.n_equal == l.n_rows && n++ < 4)
            cli_printf(stdout, "%s%s", n == 1 ? " Frozen: " : ", ", cli_name_n(l.name, l.n_name).s);
    }
    if (n > 4)
        cli_printf(stdout, " and %zu more", n - 4);
    if (n)
        putchar('.');
}

static void print_summary(const pg_comparison *c, const char *a, const char *b)
{
    const pg_compare_row *most = NULL;
    size_t n_values = 0;
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].kind == PG_ROW_DIFFERS) {
            n_values++;
            most = !most || change(&c->rows[i]) > change(most) ? &c->rows[i] : most;
        }
    if (!n_values) {
        cli_printf(stdout, "= %s equal\n", cli_plural(c->n_equal, "tensor").s);
        return;
    }
    cli_printf(stdout, "%s of %s equal, %s differ%s, ", cli_count(c->n_equal).s,
               cli_plural(c->n_rows, "tensor").s, cli_count(c->n_differ).s,
               c->n_differ == 1 ? "s" : "");
    if (c->n_only_a + c->n_only_b == 0)
        cli_puts(stdout, "none missing.");
    else
        cli_printf(stdout, "%zu only in %s, %zu only in %s.", c->n_only_a, cli_name(a).s,
                   c->n_only_b, cli_name(b).s);
    if (change(most) > 0) {
        pg_compare_layer l;
        (void)pg_comparison_layer(&l, c, (size_t)(most - c->rows));
        cli_printf(stdout, " Largest change: %s.", cli_name_n(l.name, l.n_name).s);
    }
    print_frozen(c);
    putchar('\n');
}

static void print_notes(const pg_comparison *c)
{
    size_t n_types = 0, first = 0, n_nan = 0;
    for (size_t i = c->n_rows; i-- > 0;)
        if (is_value(&c->rows[i]) && c->rows[i].a.dtype != c->rows[i].b.dtype)
            n_types++, first = i;
    if (n_types)
        cli_printf(stdout, "  note: %s stored as another type, %s (%s → %s), compared as numbers\n",
                   cli_plural(n_types, "tensor").s, cli_name(c->rows[first].name).s,
                   pg_dtype_name(c->rows[first].a.dtype), pg_dtype_name(c->rows[first].b.dtype));
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].n_nan && n_nan++ < 8)
            cli_printf(stdout, "  note: %s holds %s NaN\n", cli_name(c->rows[i].name).s,
                       cli_count(c->rows[i].n_nan).s);
    if (n_nan > 8)
        cli_printf(stdout, "  note: %zu more tensors hold NaN\n", n_nan - 8);
}

static int print_text(const pg_comparison *c, const char *a, const char *b)
{
    int status = 0;
    double max = 0;
    for (size_t i = 0; i < c->n_rows; i++)
        max = c->rows[i].max_abs > max ? c->rows[i].max_abs : max;
    if (c->n_equal < c->n_rows || cli.verbose)
        status = print_rows(c, a, b);
    if (status < 0)
        return cli_complain(NULL, NULL, "out of memory");
    if (c->n_equal < c->n_rows)
        print_summary(c, a, b);
    else
        cli_printf(stdout, "%s%s: %s, %s\n", max > 0 ? "equal within the tolerance" : "identical",
                   c->through_wrapper ? " through the wrapper" : "",
                   cli_plural(c->n_rows, "tensor").s, cli_plural(c->n_params, "parameter").s);
    print_notes(c);
    return CLI_OK;
}

/* The object for files that cannot be compared. */
static void print_json_error(const pg_err *err, const char *a, const char *b, int status)
{
    fputs("{\"a\": ", stdout);
    json_quoted(a);
    json_member("b", b);
    fputs(", ", stdout);
    cli_json_error(err, status);
    puts("}");
    cli_reported_in_json();
}

int main(int argc, char **argv)
{
    pg_err err = {0};
    pg_comparison c = {0};
    int status = CLI_OK;
    (void)cli_parse(&tool, argc, argv);
    o.abs = tolerance(abs_text, "delta");
    o.rel = tolerance(rel_text, "relative");
    o.quick = cli.quiet && !cli.json;
    o.part = cli.part;
    o.rules = cli.rules;
    o.cancel = cli_cancel();
    o.progress = cli_progress();
    if (pg_compare_files(&c, argv[1], argv[2], &o, &err) != PG_OK) {
        /* a part that must be named is not a difference */
        status = err.code == PG_E_AMBIGUOUS ? CLI_TROUBLE : cli_status(err.code);
        cli_complete_hint(&err);
        if (cli.json)
            print_json_error(&err, argv[1], argv[2], status);
        (void)cli_fail(&err);
        return cli_finish(status);
    }
    cli_progress_end();
    if (cli.json)
        print_json(&c, argv[1], argv[2]);
    else if (!cli.quiet)
        status = print_text(&c, argv[1], argv[2]);
    if (status == CLI_OK && c.n_equal < c.n_rows)
        status = CLI_NO;
    pg_comparison_fini(&c);
    return cli_finish(status);
}
