/* compare_pairs.c - pairs the tensors of two files. Readings of a name are tried from the strictest
 * on; each pairs only names that are unique among the remaining ones of both files, so that a
 * looser reading cannot take a tensor from a stricter one. Readings based on numbers or on half of
 * a name also require equal shapes. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/try.h"
#include "store/store_impl.h"
#include "wrap/compare/view.h"

typedef enum reading {
    LAYER_AND_NAME, /* legacy layout on both sides */
    NAME,
    LABEL,
    OWNER_AND_VARIABLE, /* models inside models; PyTorch's dots */
    LAYER_AND_VARIABLE, /* a layer that was built twice: "d1_2/kernel" in d1 */
    NUMBER_IN_OWNER,    /* path layout: variables have numbers */
    NUMBER_IN_LAYER,
    N_READINGS
} reading;

/* Appends the key of a tensor, or nothing if the reading has none. */
static pg_status add_key(pg__str *out, const pg__view *v, size_t i, reading how, pg_err *err)
{
    const pg__seen *t = &v->v[i];
    const int n = (int)t->n_owner, layers = pg_store_n_layers(v->r.s) > 0;
    switch (how) {
    case LAYER_AND_NAME:
        return t->layer ? pg__str_printf(out, err, "%s\n%s", t->layer, t->own) : PG_OK;
    case NAME: return pg__str_puts(out, t->own, err);
    case LABEL: return pg__str_puts(out, t->label, err);
    case OWNER_AND_VARIABLE:
        return t->var ? pg__str_printf(out, err, "%.*s\n%s", n, t->owner, t->var) : PG_OK;
    case LAYER_AND_VARIABLE:
        return t->var && t->layer ? pg__str_printf(out, err, "%s\n%s", t->layer, t->var) : PG_OK;
    case NUMBER_IN_OWNER:
        return layers ? pg__str_printf(out, err, "%.*s\n%zu", n, t->owner, t->nth) : PG_OK;
    case NUMBER_IN_LAYER:
        if (pg__store_has_paths(v->r.s))
            return pg__str_printf(out, err, "%.*s\n%zu", n, t->owner, t->nth);
        return t->layer ? pg__str_printf(out, err, "%s\n%zu", t->layer, t->nth_in_layer) : PG_OK;
    case N_READINGS: break;
    }
    return PG_OK;
}

typedef struct entry {
    size_t key; /* offset in the text */
    size_t tensor;
} entry;

typedef struct keys {
    pg__str text;
    entry *v;
    size_t n;
} keys;

static int by_key(const void *a, const void *b, void *text)
{
    const char *t = text;
    return strcmp(t + ((const entry *)a)->key, t + ((const entry *)b)->key);
}

/* The keys of the tensors that have no partner yet, sorted. */
static pg_status make_keys(keys *k, const pg__view *v, const size_t *partner, reading how,
                           pg_err *err)
{
    pg_status st = PG_OK;
    k->text.n = k->n = 0;
    for (size_t i = 0; i < v->n; i++) {
        const size_t at = k->text.n;
        if (partner[i] != PG_NONE)
            continue;
        PG_TRY(add_key(&k->text, v, i, how, err));
        if (k->text.n == at)
            continue;
        PG_TRY(pg__str_add(&k->text, "", 1, err));
        k->v[k->n++] = (entry){at, i};
    }
    if (k->n)
        pg__sort(k->v, k->n, sizeof *k->v, by_key, k->text.s);
done:
    return st;
}

/* Entries from i on with the key of i. */
static size_t run(const keys *k, size_t i)
{
    size_t n = 1;
    while (i + n < k->n && strcmp(k->text.s + k->v[i].key, k->text.s + k->v[i + n].key) == 0)
        n++;
    return n;
}

static void merge(size_t *of_a, size_t *of_b, const pg__view *a, const pg__view *b, const keys *ka,
                  const keys *kb, reading how)
{
    for (size_t i = 0, k = 0; i < ka->n && k < kb->n;) {
        const int c = strcmp(ka->text.s + ka->v[i].key, kb->text.s + kb->v[k].key);
        const size_t ni = c <= 0 ? run(ka, i) : 0, nk = c >= 0 ? run(kb, k) : 0;
        const size_t x = ka->v[i].tensor, y = kb->v[k].tensor;
        if (c == 0 && ni == 1 && nk == 1 &&
            (how < OWNER_AND_VARIABLE ||
             pg__same_shape(pg__view_weight(a, x), pg__view_weight(b, y))))
            of_a[x] = y, of_b[y] = x;
        i += ni;
        k += nk;
    }
}

pg_status pg__view_pair(size_t *of_a, size_t *of_b, const pg__view *a, const pg__view *b,
                        pg_err *err)
{
    pg_status st = PG_OK;
    keys ka = {0}, kb = {0};
    ka.v = pg__mem_array(a->n, sizeof *ka.v);
    kb.v = pg__mem_array(b->n, sizeof *kb.v);
    if (!ka.v || !kb.v) {
        st = pg__nomem(err);
        goto done;
    }
    for (size_t i = 0; i < a->n; i++)
        of_a[i] = PG_NONE;
    for (size_t i = 0; i < b->n; i++)
        of_b[i] = PG_NONE;
    for (int how = 0; how < N_READINGS; how++) {
        PG_TRY(make_keys(&ka, a, of_a, (reading)how, err));
        PG_TRY(make_keys(&kb, b, of_b, (reading)how, err));
        if (ka.n && kb.n)
            merge(of_a, of_b, a, b, &ka, &kb, (reading)how);
    }
done:
    pg__str_fini(&ka.text);
    pg__str_fini(&kb.text);
    pg__mem_free(ka.v);
    pg__mem_free(kb.v);
    return st;
}
