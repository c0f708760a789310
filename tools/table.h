/* table.h - rows of text with aligned columns, or the same rows in Markdown.
 *
 *     table t = {.n_cols = 2, .right = 1u << 1};
 *     table_add(&t, "tensor");
 *     table_add(&t, "params");       // first row: the heading
 *     table_print(&t, "  ", 0);
 *     table_free(&t);
 */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>

typedef struct table {
    size_t n_cols;
    unsigned right; /* bit i: column i is flush right */
    char **cells;   /* row by row; owned */
    size_t n, cap;
    size_t fit; /* columns of the terminal, for which the first cells are cut in the middle; or 0 */
    size_t most; /* without fit: blanks that follow the first cells at most; or 0 */
    int failed;  /* out of memory: table_print() says so */
} table;

void table_add(table *t, const char *text);

/* Prints all rows to stdout, each after indent, with two blanks between columns and none at the
 * end; as Markdown if markdown is not 0. Returns 0, or -1 if memory ran out while adding. */
int table_print(const table *t, const char *indent, int markdown);

void table_free(table *t);

#endif
