/* fuzz_config.c - any bytes as a program's settings (run.json of pgfit): a tree whose texts are
 * valid JSON again. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "pg/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check(const pg_config *c, int in_object)
{
    require(!c->key == !in_object && c->text != NULL);
    if (c->type != PG_CONFIG_TEXT)
        require(pg__json_check(c->text, strlen(c->text), NULL) == PG_OK);
    require(c->n == 0 || c->type == PG_CONFIG_LIST || c->type == PG_CONFIG_OBJECT);
    for (size_t i = 0; i < c->n; i++)
        check(&c->items[i], c->type == PG_CONFIG_OBJECT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    pg_err err = {0};
    pg_config *root = NULL;
    if (pg_config_parse(&root, (const char *)data, n, "run.json", &err) == PG_OK)
        check(root, 0);
    else
        require(err.code && strncmp(err.msg, "run.json: ", 10) == 0 && !strchr(err.msg, '\n'));
    pg_config_close(root);
    return 0;
}
