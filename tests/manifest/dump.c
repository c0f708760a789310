/* dump.c - prints everything that the public API tells about files, for the runners that judge the
 * tools from outside. It knows nothing of formats: what it shows is what any user of libpg gets.
 *
 * One record per line on stdout; a name or text follows its line with the length announced there,
 * then '\n', so that names may hold anything:
 *
 *   F <status> <length>     a file: pg_status_name(); the format, or the error message
 *   L <weights> <length>    a layer: name
 *   W <layer> <dtype> <length> <bytes> <dims...>    a weight: name, then the raw bytes and '\n'
 *   S <layer> <dtype> <length> <bytes> <dims...>    the same for a state tensor; layer -1
 *   T <which> <length>      a description (JSON), 0 model, 1 training, 2 metadata
 *   E <status> <length>     the file opened but could not be read to its end: the message
 *
 * usage: pg_dump [--salvage] FILE...   (exit status 1 if a file could not be opened or read) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pg/pg.h"

static void put(const char *text, size_t n)
{
    fwrite(text, 1, n, stdout);
    putchar('\n');
}

static pg_status dump_tensor(pg_store *s, int is_state, size_t i, pg_err *err)
{
    const pg_weight *w = is_state ? pg_store_state(s, i) : pg_store_weight(s, i);
    const long layer = w->layer == PG_NONE ? -1 : (long)w->layer;
    char *buf = malloc(w->n_bytes ? (size_t)w->n_bytes : 1);
    pg_status st;

    if (!buf)
        return pg_fail(err, PG_E_NOMEM, "out of memory");
    st = is_state ? pg_store_read_state(s, i, 0, buf, (size_t)w->n_bytes, err)
                  : pg_store_read(s, i, 0, buf, (size_t)w->n_bytes, err);
    if (st == PG_OK) {
        printf("%c %ld %s %zu %" PRIu64, is_state ? 'S' : 'W', layer, pg_dtype_name(w->dtype),
               strlen(w->name), w->n_bytes);
        for (uint32_t d = 0; d < w->rank; d++)
            printf(" %" PRIu64, w->dims[d]);
        putchar('\n');
        put(w->name, strlen(w->name));
        put(buf, (size_t)w->n_bytes);
    }
    free(buf);
    return st;
}

static pg_status dump(const char *path, const pg_open_opts *opts)
{
    pg_err err = {0};
    pg_store *s = NULL;
    pg_status st = pg_store_open(&s, path, opts, &err);
    const char *format = st == PG_OK ? pg_store_format(s) : err.msg;

    printf("F %s %zu\n", pg_status_name(st), strlen(format));
    put(format, strlen(format));
    if (st != PG_OK)
        return st;
    for (size_t i = 0; i < pg_store_n_layers(s); i++) {
        const pg_layer *l = pg_store_layer(s, i);

        printf("L %zu %zu\n", l->n_weights, strlen(l->name));
        put(l->name, strlen(l->name));
    }
    for (size_t i = 0; i < pg_store_n_weights(s) && st == PG_OK; i++)
        st = dump_tensor(s, 0, i, &err);
    for (size_t i = 0; i < pg_store_n_state(s) && st == PG_OK; i++)
        st = dump_tensor(s, 1, i, &err);
    for (int t = PG_TEXT_MODEL_CONFIG; t <= PG_TEXT_METADATA; t++) {
        size_t n = 0;
        const char *text = pg_store_text(s, (pg_text)t, &n);

        if (!text)
            continue;
        printf("T %d %zu\n", t, n);
        put(text, n);
    }
    if (st != PG_OK) {
        printf("E %s %zu\n", pg_status_name(st), strlen(err.msg));
        put(err.msg, strlen(err.msg));
    }
    pg_store_close(s);
    return st;
}

int main(int argc, char **argv)
{
    pg_open_opts opts = {0};
    int rc = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--salvage") == 0)
            opts.salvage = 1;
        else if (dump(argv[i], &opts) != PG_OK)
            rc = 1;
    }
    return rc;
}
