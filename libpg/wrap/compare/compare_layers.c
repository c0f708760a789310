/* compare_layers.c - the rows of a comparison, layer by layer: pg_comparison_layer(). */
#include <string.h>

#include "pg/compare.h"

/* "conv1" of "conv1/kernel" or "conv1.weight". */
static size_t layer_length(const char *name)
{
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
    const char *end = slash ? slash : dot;
    return end ? (size_t)(end - name) : strlen(name);
}

size_t pg_comparison_layer(pg_compare_layer *out, const pg_comparison *c, size_t row)
{
    *out = (pg_compare_layer){.name = c->rows[row].name, .n_name = layer_length(c->rows[row].name)};
    for (; row < c->n_rows; row++, out->n_rows++) {
        const char *name = c->rows[row].name;
        if (layer_length(name) != out->n_name || strncmp(name, out->name, out->n_name) != 0)
            break;
        out->n_equal += c->rows[row].kind == PG_ROW_EQUAL;
    }
    return row;
}
