/* fuzz_pickle.c - any bytes as the pickle of a .pt: run as data, then searched for tensors.
 * Whatever comes out must be within the bounds that the reader promises. What a rank of Megatron-LM
 * says of its job is read, too. */
#include <stdlib.h>
#include <string.h>

#include "format/megatron.h"
#include "format/pytorch_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check_values(const pg__pickle *p, const char *text, size_t n)
{
    require(p->root < p->n);
    for (size_t i = 0; i < p->n; i++) {
        const pg__pk_value *v = &p->v[i];
        if (v->kind == PG_PK_STR || v->kind == PG_PK_BYTES)
            require(v->n == 0 || (v->u.text >= text && v->n <= (size_t)(text + n - v->u.text)));
        if (v->kind >= PG_PK_TUPLE && v->kind != PG_PK_GLOBAL && v->kind != PG_PK_FOREIGN)
            for (uint32_t k = 0; k < v->n; k++)
                require(v->u.items[k] < p->n);
        if (v->kind == PG_PK_FOREIGN)
            require((size_t)v->u.i < p->n_foreign);
        if (v->kind == PG_PK_CALL)
            require(v->n >= 2);
        if (pg__pickle_is_dict(p, v))
            require(v->n % 2 == 0);
    }
}

static void check_parts(const pg__pt_parts *l, const pg__pickle *p)
{
    for (size_t i = 0; i < l->n; i++) {
        require(l->v[i].value < p->n && l->v[i].path < l->texts.n);
        require(memchr(l->texts.s + l->v[i].path, 0, l->texts.n - l->v[i].path) != NULL);
    }
}

static void check_tree(const pg__pt_tree *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const pg__strided *v = &t->list[i].view;
        uint64_t last = v->first;
        require(memchr(t->names.s + t->list[i].name, 0, t->names.n - t->list[i].name) != NULL);
        for (uint32_t k = 0; k < v->rank; k++) {
            if (v->dims[k] == 0)
                last = 0;
            if (v->dims[k] == 0)
                break;
            last += (v->dims[k] - 1) * v->strides[k];
        }
        require(last < v->n_source || last == 0);
    }
}

/* What a part of a larger tensor says of itself. */
static void check_cut(const pg__pickle *p, const pg__pt_tensor *t)
{
    pg_err err = {0};
    pg__pt_cut c;
    if (!t->cut)
        return;
    require(t->cut < p->n && pg__pt_is_cut(p, &p->v[t->cut]));
    require(pg__pt_cut_class(p, &p->v[t->cut]) != NULL);
    if (pg__pt_read_cut(&c, p, &p->v[t->cut], &err) == PG_OK)
        require(c.rank < PG_MAX_RANK);
    else
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
}

static void read_part(const pg__pickle *p, const char *part)
{
    pg_err err = {0};
    pg__pt_tree t = {0};
    if (pg__pt_tree_read(&t, p, part, &err) == PG_OK) {
        check_tree(&t);
        for (size_t i = 0; i < t.n; i++)
            check_cut(p, &t.list[i]);
        for (size_t i = 0; i < t.n_numbers; i++)
            require(t.numbers[i].at <= t.others.n);
    } else {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
    }
    pg__pt_tree_fini(&t);
}

static void check_megatron(const pg__pickle *p)
{
    pg_err err = {0};
    pg__megatron_facts f = {0};
    if (pg__megatron_facts_of(&f, p, &err) != PG_OK)
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
    else
        require(f.version >= -1 && f.version <= 3 && f.n_models <= 1024);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    pg_err err = {0};
    pg__pickle p = {0};
    pg__pt_tree t = {0};
    size_t used = 0;
    int cut = 0;
    if (pg__pickle_read(&p, (const char *)data, n, pg__pt_globals, &used, &cut, &err) != PG_OK) {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n') && !p.v);
        return 0;
    }
    require(used > 0 && used <= n && !cut);
    check_values(&p, (const char *)data, n);
    check_megatron(&p);
    read_part(&p, NULL);
    read_part(&p, ".");
    if (pg__pt_tree_read(&t, &p, "", &err) == PG_OK) {
        check_parts(&t.parts, &p);
        for (size_t i = 0; i < t.parts.n && i < 4; i++)
            read_part(&p, t.parts.texts.s + t.parts.v[i].path);
    }
    pg__pt_tree_fini(&t);
    pg__pickle_fini(&p);
    return 0;
}
