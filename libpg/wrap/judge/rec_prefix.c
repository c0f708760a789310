/* rec_prefix.c - PyTorch's wrappers, which show only in tensor names: DataParallel and
 * DistributedDataParallel put "module." before every key, torch.compile "_orig_mod."; FSDP and
 * activation checkpointing wrap inner modules, so their words may be anywhere. They nest in any
 * order (torch/distributed/fsdp/_common_utils.py, clean_tensor_name).
 *
 * Words with an underscore are never names of children, so they are removed anywhere. "module" is
 * also a common name of children: it counts only if every name begins with it, perhaps after other
 * words, and is removed once, because "module.module." is more often such a child than a wrapper in
 * a wrapper. Within names it is removed if it alone stands between a module and "_orig_mod": that
 * is a compiled model in a DataParallel. Elsewhere, names and shapes do not show whether the only
 * child of a module is a wrapper: such a name is reported. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wrap/judge/recogniser.h"

#define MAX_INNER 32u /* occurrences of "module" in a name that are examined */

enum { ANYWHERE, LEADING, COPY }; /* COPY: at the beginning, followed by its number */

static const struct {
    const char *word;
    int where;
    const char *writer;
} words[] = {
    {"module", LEADING, "DataParallel, DistributedDataParallel, DeepSpeed"},
    {"_module", LEADING, "Opacus"},
    {"_orig_mod", ANYWHERE, "torch.compile"},
    {"_fsdp_wrapped_module", ANYWHERE, "FSDP"},
    {"_fpw_module", ANYWHERE, "FSDP of torch 1.11 and fairscale"},
    {"_checkpoint_wrapped_module", ANYWHERE, "activation checkpointing"},
    {"_forward_module", ANYWHERE, "Lightning"},
    {"_dp_module", ANYWHERE, "data parallel engines"},
    {"replicas", COPY, "copies for parallel_apply"},
};
enum { N = sizeof words / sizeof *words };
_Static_assert((size_t)N <= (size_t)PG_N_WORDS, "pg__words counts each word");

/* All names, sorted. */
typedef struct sorted {
    const char **v;
    size_t n;
} sorted;

const char *pg__word(size_t k)
{
    return words[k].word;
}

const char *pg__word_writer(size_t k)
{
    return words[k].writer;
}

/* The word at the start of name, if more follows; N if none. *n: its bytes with the dot. */
static size_t word_at(const char *name, size_t *n)
{
    const size_t len = strcspn(name, ".");
    for (size_t k = 0; k < N && name[len] && name[len + 1]; k++) {
        if (strlen(words[k].word) != len || memcmp(words[k].word, name, len) != 0)
            continue;
        *n = len + 1;
        if (words[k].where != COPY)
            return k;
        const size_t digits = strspn(name + *n, "0123456789");
        if (digits == 0 || name[*n + digits] != '.' || !name[*n + digits + 1])
            return N;
        *n += digits + 1;
        return k;
    }
    return N;
}

size_t pg__word_at(const char *name, size_t *n)
{
    return word_at(name, n) < N ? word_at(name, n) : PG_NONE;
}

/* Do all names with the first n bytes of this one continue with "module."? */
static int is_only_child(const sorted *all, const char *name, size_t n)
{
    size_t end[2]; /* end of the names before those, and of those */
    for (int k = 0; k < 2; k++) {
        size_t lo = 0, hi = all->n;
        while (lo < hi) {
            const size_t mid = lo + (hi - lo) / 2;
            if (strncmp(all->v[mid], name, n) < k)
                lo = mid + 1;
            else
                hi = mid;
        }
        end[k] = lo;
    }
    return end[0] < end[1] && strncmp(all->v[end[0]] + n, "module.", 7) == 0 &&
           strncmp(all->v[end[1] - 1] + n, "module.", 7) == 0;
}

/* What is removed from a name. */
typedef struct taken {
    unsigned words;         /* bit k: word k */
    const char *copy;       /* the number of the copy, in the name; or NULL */
    size_t at_front, later; /* bytes at the beginning; after something that stays */
} taken;

/* 1 if "module" is at name, followed by "_orig_mod". */
static int is_before_orig_mod(const char *name, size_t k, size_t n)
{
    const size_t next = k == 0 ? word_at(name + n, &n) : N;
    return next < N && strcmp(words[next].word, "_orig_mod") == 0;
}

/* Copies name (out may be NULL) without its words: those of kind ANYWHERE, each of `leading` once
 * at the beginning and, with `within`, "module" before "_orig_mod". */
static taken strip(char *out, const char *name, unsigned leading, int within)
{
    taken t = {0};
    int front = 1;
    size_t n = 0;
    while (*name) {
        const size_t k = word_at(name, &n);
        const unsigned bit = k < N ? 1u << k : 0;
        if (k < N && (words[k].where == ANYWHERE || (front && leading & bit & ~t.words) ||
                      (!front && within && is_before_orig_mod(name, k, n)))) {
            t.words |= bit;
            t.copy = words[k].where == COPY ? name + strlen(words[k].word) + 1 : t.copy;
            *(front ? &t.at_front : &t.later) += n;
            name += n;
            continue;
        }
        front = 0;
        n = strcspn(name, ".");
        n += name[n] == '.';
        if (out)
            memcpy(out, name, n);
        out = out ? out + n : NULL;
        name += n;
    }
    if (out)
        *out = 0;
    return t;
}

void pg__words_strip(char *out, const pg__words *w, const char *name)
{
    (void)strip(out, name, w->leading, w->within);
}

int pg__words_are_copies(const pg__words *w)
{
    for (size_t k = 0; k < N; k++)
        if (words[k].where == COPY && w->leading & 1u << k)
            return 1;
    return 0;
}

/* torch.optim.swa_utils.AveragedModel: it has the module, and the number of averaged models. */
static size_t find_counter(const pg_store *s)
{
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg_weight *w = pg_store_weight(s, i);
        if (strcmp(w->name, "n_averaged") == 0 && w->rank == 0 && w->dtype == PG_I64)
            return i;
    }
    return PG_NONE;
}

static unsigned words_that_are(int where)
{
    unsigned bits = 0;
    for (size_t k = 0; k < N; k++)
        if (words[k].where == where)
            bits |= 1u << k;
    return bits;
}

/* The words in `leading` with which every name begins; copies may occur together with the original,
 * which is called "module". */
static unsigned shared_by_all(const pg_store *s, unsigned leading, size_t but)
{
    const unsigned copy = words_that_are(COPY), either = copy | 1u;
    unsigned all = leading, some = 0;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const taken t =
            i == but ? (taken){0} : strip(NULL, pg_store_weight(s, i)->name, leading, 0);
        if (i == but)
            continue;
        some |= t.words;
        all &= t.words & either && leading & copy ? t.words | either : t.words;
    }
    return some & all;
}

static int same_number(const char *a, const char *b)
{
    const size_t n = strcspn(a, ".");
    return n == strcspn(b, ".") && memcmp(a, b, n) == 0;
}

/* Copies have different numbers, or occur together with the original. With a single number,
 * "replicas" is a user's list of modules. */
static int are_several(const pg_store *s, unsigned leading)
{
    const char *first = NULL;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const taken t = strip(NULL, pg_store_weight(s, i)->name, leading, 0);
        if (!t.copy && t.words & 1u)
            return 1;
        if (first && t.copy && !same_number(first, t.copy))
            return 1;
        first = first ? first : t.copy;
    }
    return 0;
}

static int is_flat(const char *part, size_t n)
{
    static const char *const names[] = {"flat_param", "_flat_param"};
    for (size_t i = 0; i < 2; i++)
        if (strlen(names[i]) == n && memcmp(part, names[i], n) == 0)
            return 1;
    return n > 11 && memcmp(part, "flat_param_", 11) == 0 && isdigit((unsigned char)part[11]);
}

/* Looks for a part of a name that looks like a wrapper's word but is unknown. */
static void find_odd(pg__words *out, const char *name, size_t i)
{
    static const char end[] = "wrapped_module";
    const size_t n_end = sizeof end - 1;
    size_t n, len;
    for (const char *at = name; out->odd == PG_NONE && *at; at += len + (at[len] == '.')) {
        len = strcspn(at, ".");
        const int flat = is_flat(at, len) && !at[len];
        const int wrapped = at[0] == '_' && at[len] && len > n_end &&
                            memcmp(at + len - n_end, end, n_end) == 0 && word_at(at, &n) == N;
        if (!flat && !wrapped)
            continue;
        out->odd = i;
        out->odd_is_flat = flat;
        (void)pg_printable(out->odd_part, sizeof out->odd_part, at, len);
    }
}

static void count(pg__words *out, const pg_store *s)
{
    const char *first = NULL;
    int same = 1;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const char *name = pg_store_weight(s, i)->name;
        find_odd(out, name, i);
        if (i == out->counter)
            continue;
        const taken t = strip(NULL, name, out->leading, out->within);
        for (size_t k = 0; k < N; k++)
            out->n[k] += t.words >> k & 1;
        out->n_names += t.words != 0;
        out->prefix = first ? out->prefix : t.at_front;
        first = first ? first : name;
        same &= !t.later && t.at_front == out->prefix && memcmp(name, first, t.at_front) == 0;
    }
    if (!same)
        out->prefix = 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* 1 if the first bytes of name are only words. */
static int is_at_front(const char *name, size_t before)
{
    size_t n = 0;
    while (before && word_at(name, &n) < N && n <= before) {
        name += n;
        before -= n;
    }
    return before == 0;
}

/* Kinds of "module" within names. */
enum {
    COMPILED,
    ONLY_CHILD,
    NOT_COMPILED
}; /* before "_orig_mod"; an only child; an only child, but not before it */

/* The next of them in name; *before: bytes of the name up to it. Returns 0 if there are no more.
 * *from: bytes examined so far. */
static int next_inner(size_t *before, size_t *from, const sorted *all, const char *name, int which)
{
    size_t n = 0;
    for (unsigned looked = 0; name[*from] && looked < MAX_INNER;) {
        const size_t at = *from, k = word_at(name + at, &n);
        *from += strcspn(name + at, ".");
        *from += name[*from] == '.';
        const int compiled = k == 0 && is_before_orig_mod(name + at, k, n);
        if (k != 0 || is_at_front(name, at) || (compiled && which == NOT_COMPILED) ||
            (!compiled && which == COMPILED))
            continue;
        looked++;
        *before = at;
        if (which == COMPILED || is_only_child(all, name, at))
            return 1;
    }
    return 0;
}

/* Decides about "module" within names: all before "_orig_mod" must be only children, or none is
 * removed. */
static void find_inner(pg__words *out, const pg_store *s, const sorted *all)
{
    size_t before = 0, n_only = 0, n_others = 0;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const char *name = pg_store_weight(s, i)->name;
        for (size_t from = 0; next_inner(&before, &from, all, name, COMPILED);)
            *(is_only_child(all, name, before) ? &n_only : &n_others) += 1;
    }
    out->within = n_only && !n_others;
    for (size_t i = 0; i < pg_store_n_weights(s) && out->inner == PG_NONE; i++) {
        size_t from = 0;
        if (next_inner(&before, &from, all, pg_store_weight(s, i)->name,
                       out->within ? NOT_COMPILED : ONLY_CHILD)) {
            out->inner = i;
            out->inner_at = before;
        }
    }
}

static pg_status look_within(pg__words *out, const pg_store *s, pg_err *err)
{
    sorted all = {.v = pg__mem_array(pg_store_n_weights(s), sizeof *all.v)};
    if (!all.v)
        return pg__nomem(err);
    for (; all.n < pg_store_n_weights(s); all.n++)
        all.v[all.n] = pg_store_weight(s, all.n)->name;
    if (all.n)
        qsort(all.v, all.n, sizeof *all.v, by_bytes);
    find_inner(out, s, &all);
    pg__mem_free(all.v);
    return PG_OK;
}

static pg_status find_words(pg__words *out, const pg_store *s, pg_err *err)
{
    *out = (pg__words){.counter = find_counter(s), .odd = PG_NONE, .inner = PG_NONE};
    if (pg_store_n_layers(s))
        return PG_OK;
    unsigned leading = words_that_are(LEADING) | words_that_are(COPY), before;
    do {
        before = leading;
        leading = shared_by_all(s, before, out->counter);
        if (leading == before && leading & words_that_are(COPY) && !are_several(s, leading))
            leading &= ~words_that_are(COPY);
    } while (leading != before);
    out->leading = leading;
    if (!(leading & 1u))
        out->counter = PG_NONE;
    const pg_status st = look_within(out, s, err);
    count(out, s);
    return st;
}

const pg__recogniser pg__rec_prefix = {
    .name = "pytorch",
    .doc = "DataParallel, DistributedDataParallel, torch.compile, FSDP, activation checkpointing: "
           "words in names",
    .words = find_words,
};
