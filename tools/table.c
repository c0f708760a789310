/* table.c - aligned columns; widths are known only after the last row, so cells are kept. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

void table_add(table *t, const char *text)
{
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 64;
        char **more = realloc(t->cells, cap * sizeof *more);
        if (!more) {
            t->failed = 1;
            return;
        }
        t->cells = more;
        t->cap = cap;
    }
    t->cells[t->n] = strdup(text);
    t->failed |= !t->cells[t->n];
    t->n += t->cells[t->n] != NULL;
}

static void print_text_row(const table *t, size_t row, const size_t *width, const char *indent)
{
    size_t blanks = 0; /* blanks to print before the next cell, so that no line ends with blanks */
    cli_puts(stdout, indent);
    for (size_t c = 0; c < t->n_cols; c++) {
        const char *s = t->cells[row * t->n_cols + c];
        const size_t w = cli_width(s), pad = width[c] > w ? width[c] - w : 0,
                     before = t->right >> c & 1 ? pad : 0;
        if (*s) {
            cli_printf(stdout, "%*s%s", (int)(blanks + before), "", s);
            blanks = pad - before + 2;
        } else {
            blanks += width[c] + 2;
        }
    }
    putchar('\n');
}

/* Names may contain Markdown's syntax. */
static void print_markdown_cell(const char *s)
{
    char buf[1024];
    size_t n = 0;
    for (; *s && n + 3 < sizeof buf; s++) {
        if (strchr("|*_`<", *s))
            buf[n++] = '\\';
        buf[n++] = *s;
    }
    buf[n] = 0;
    cli_puts(stdout, buf);
}

static void print_markdown_row(const table *t, size_t row)
{
    for (size_t c = 0; c < t->n_cols; c++) {
        fputs(c ? " | " : "| ", stdout);
        print_markdown_cell(t->cells[row * t->n_cols + c]);
    }
    puts(" |");
    for (size_t c = 0; row == 0 && c < t->n_cols; c++)
        fputs(t->right >> c & 1 ? "|--:" : "|---", stdout);
    if (row == 0)
        puts("|");
}

/* The first `head` and the last `tail` characters of s. */
static void cut_middle(char *s, size_t head, size_t tail)
{
    const size_t n = cli_width(s);
    char *at = s, *rest = s;
    for (size_t i = 0; i < head; i++)
        for (at++; ((unsigned char)*at & 0xC0) == 0x80;)
            at++;
    for (size_t i = 0; i < n - tail; i++)
        for (rest++; ((unsigned char)*rest & 0xC0) == 0x80;)
            rest++;
    memcpy(at, "...", 3);
    memmove(at + 3, rest, strlen(rest) + 1);
}

/* Shortens the cells of the first column in the middle so that lines fit, but to no less than 12
 * characters: the end of a path says more than its middle. */
static void fit_first(const table *t, size_t *width)
{
    size_t others = 0;
    for (size_t c = 1; c < t->n_cols; c++)
        others += width[c] + 2;
    const size_t room = t->fit > others + 12 ? t->fit - others : 12;
    if (!t->fit && t->most && width[0] > t->most)
        width[0] = t->most; /* longer ones push the rest of their line */
    if (!t->fit || width[0] <= room)
        return;
    for (size_t i = 0; i < t->n; i += t->n_cols)
        if (cli_width(t->cells[i]) > room)
            cut_middle(t->cells[i], (room - 3) / 3, room - 3 - (room - 3) / 3);
    width[0] = room;
}

int table_print(const table *t, const char *indent, int markdown)
{
    size_t width[16] = {0};
    if (t->failed)
        return -1;
    for (size_t i = 0; i < t->n; i++) {
        const size_t w = cli_width(t->cells[i]);
        if (w > width[i % t->n_cols])
            width[i % t->n_cols] = w;
    }
    if (!markdown)
        fit_first(t, width);
    for (size_t row = 0; row < t->n / t->n_cols; row++) {
        if (markdown)
            print_markdown_row(t, row);
        else
            print_text_row(t, row, width, indent);
    }
    return 0;
}

void table_free(table *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (table){0};
}
