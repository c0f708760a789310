/* fuzz_manifest.c - any bytes as a manifest.json; what is accepted must be printed as a manifest
 * that says the same again, and name no file outside of its folder. */
#include <stdlib.h>
#include <string.h>

#include "format/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check(const pg__manifest *m)
{
    for (size_t i = 0; i < m->n_tensors; i++) {
        const pg__shard_tensor *t = &m->tensors[i];
        require(t->name && t->rank <= PG_MAX_RANK && t->first <= m->n_pieces &&
                t->n <= m->n_pieces - t->first);
        require(t->layer == PG_NONE || t->layer < m->layers.n);
    }
    for (size_t i = 0; i < m->n_pieces; i++) {
        const char *path = m->pieces[i].path;
        require(path && *path && *path != '/' && strncmp(path, "../", 3) != 0 &&
                !strstr(path, "/../"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    pg_err err = {0};
    pg__manifest m = {0}, again = {0};
    pg__str text = {0}, text2 = {0};
    if (pg__manifest_parse(&m, (const char *)data, n, &err) != PG_OK) {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
        return 0;
    }
    check(&m);
    require(pg__manifest_print(&text, &m, &err) == PG_OK);
    require(pg__manifest_parse(&again, text.s, text.n, &err) == PG_OK);
    require(pg__manifest_print(&text2, &again, &err) == PG_OK);
    require(text.n == text2.n && memcmp(text.s, text2.s, text.n) == 0);
    pg__str_fini(&text);
    pg__str_fini(&text2);
    pg__manifest_fini(&again);
    pg__manifest_fini(&m);
    return 0;
}
