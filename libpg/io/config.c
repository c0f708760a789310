/* config.c - a JSON file as a tree of texts. The parser checks that it is JSON; the tree is cut out
 * of the unchanged text, so that numbers keep their digits. */
#include "pg/config.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/io.h"

#define MAX_BYTES ((uint64_t)1 << 20)
#define MAX_DEPTH 32 /* each level keeps its text */

static pg_config_type type_of(char first)
{
    switch (first) {
    case '{': return PG_CONFIG_OBJECT;
    case '[': return PG_CONFIG_LIST;
    case '"': return PG_CONFIG_TEXT;
    case 't':
    case 'f': return PG_CONFIG_BOOL;
    case 'n': return PG_CONFIG_NULL;
    default: return PG_CONFIG_NUMBER;
    }
}

static void release(pg_config *c)
{
    for (size_t i = 0; i < c->n; i++)
        release(&c->items[i]);
    pg__mem_free(c->items);
    pg__mem_free((void *)(uintptr_t)c->key);
    pg__mem_free((void *)(uintptr_t)c->text);
}

static pg_status unquote(const char **out, const char *text, pg__json_span s, pg_err *err)
{
    pg__str b = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(&b, "", err));
    PG_TRY(pg__json_unquote(&b, text, s, err));
    if (strlen(b.s) != b.n)
        PG_FAIL(PG_E_FORMAT, "holds a text with a NUL");
    *out = b.s;
    b = (pg__str){0};
done:
    pg__str_fini(&b);
    return st;
}

static pg_status read_value(pg_config *out, const char *text, pg__json_span s, int depth,
                            pg_err *err)
{
    pg__json_walk w = pg__json_walk_of(text, s), again = w;
    pg_status st = PG_OK;
    size_t n = 0;
    out->type = type_of(text[s.off]);
    if (out->type == PG_CONFIG_TEXT)
        return unquote(&out->text, text, s, err);
    if (depth > MAX_DEPTH)
        PG_FAIL(PG_E_LIMIT, "nested more than %d deep", MAX_DEPTH);
    out->text = pg__mem_strndup(text + s.off, s.n);
    if (!out->text)
        return pg__nomem(err);
    if (out->type != PG_CONFIG_LIST && out->type != PG_CONFIG_OBJECT)
        return PG_OK;
    while (pg__json_walk_next(&w))
        n++;
    out->items = pg__mem_array(n, sizeof *out->items);
    if (!out->items)
        return pg__nomem(err);
    while (pg__json_walk_next(&again)) {
        pg_config *item = &out->items[out->n++];
        if (again.is_object)
            PG_TRY(unquote(&item->key, text, again.key, err));
        PG_TRY(read_value(item, text, again.value, depth + 1, err));
    }
done:
    return st;
}

static pg_status read_root(pg_config *out, const char *text, size_t n, pg_err *err)
{
    const pg__json_step whole = {0};
    pg__json *parsed = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__json_parse(&parsed, text, n, err));
    if (pg__json_type_of(parsed) != PG_J_OBJECT)
        PG_FAIL(PG_E_FORMAT, "not a JSON object, {\"key\": value, ...}");
    PG_TRY(read_value(out, text, pg__json_range(text, n, &whole), 1, err));
done:
    pg__json_free(parsed);
    return st;
}

pg_status pg_config_parse(pg_config **out, const char *text, size_t n, const char *name,
                          pg_err *err)
{
    pg_config *root = pg__mem_array(1, sizeof *root);
    pg_status st = PG_OK;
    if (!root)
        PG_TRY(pg__nomem(err));
    st = read_root(root, text, n, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(name));
        goto done;
    }
    *out = root;
    root = NULL;
done:
    pg_config_close(root);
    return st;
}

pg_status pg_config_open(pg_config **out, const char *path, pg_err *err)
{
    pg__io *io = NULL;
    char *text = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__io_open(&io, path, err));
    const uint64_t n = pg__io_size(io);
    if (n > MAX_BYTES)
        PG_FAIL(PG_E_LIMIT, "%s: %s bytes are too many for a configuration", PG_SHOW(path),
                PG_NUM(n));
    text = pg__mem_array((size_t)n + 1, 1);
    if (!text)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(io, 0, text, (size_t)n, err));
    PG_TRY(pg_config_parse(out, text, (size_t)n, path, err));
done:
    pg__mem_free(text);
    pg__io_close(io);
    return st;
}

void pg_config_close(pg_config *root)
{
    if (root)
        release(root);
    pg__mem_free(root);
}
