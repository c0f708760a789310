/* rec_prefix.c - PyTorch's wrappers, which show in tensor names only: DataParallel and
 * DistributedDataParallel put "module." before every key, torch.compile "_orig_mod."; FSDP and
 * activation checkpointing wrap modules inside modules, so that their words stand anywhere. They
 * nest in every order (torch/distributed/fsdp/_common_utils.py, clean_tensor_name).
 *
 * Words with an underscore are nobody's child and go wherever they stand. "module" is what people
 * call children, too: it counts only where every name has it at the beginning, behind other words,
 * and is taken once, because "module.module." is more often such a child than a wrapper in a
 * wrapper.
 */
#include <ctype.h>
#include <string.h>

#include "wrap/judge/recogniser.h"

enum { ANYWHERE, LEADING, COPY }; /* COPY: at the beginning, with its number behind it */

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

const char *pg__word(size_t k)
{
    return words[k].word;
}

const char *pg__word_writer(size_t k)
{
    return words[k].writer;
}

/* Which word stands at name, with more behind it; N if none. *n: its bytes with the dot. */
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

/* What goes from a name. */
typedef struct taken {
    unsigned words;         /* bit k: word k */
    const char *copy;       /* the number of the copy, in the name; or NULL */
    int inner;              /* "module" is left behind a word that stands within the name */
    size_t at_front, later; /* bytes at the beginning; behind something that stays */
} taken;

/* Copies name (out may be NULL) without its words: those that stand anywhere, and each of `leading`
 * once at the beginning. */
static taken strip(char *out, const char *name, unsigned leading)
{
    taken t = {0};
    int front = 1;
    size_t n = 0;
    while (*name) {
        const size_t k = word_at(name, &n);
        const unsigned bit = k < N ? 1u << k : 0;
        if (k < N && (words[k].where == ANYWHERE || (front && leading & bit & ~t.words))) {
            t.words |= bit;
            t.copy = words[k].where == COPY ? name + strlen(words[k].word) + 1 : t.copy;
            t.inner |= !front && strcmp(words[k].word, "_orig_mod") == 0 &&
                       strncmp(name + n, "module.", 7) == 0;
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
    (void)strip(out, name, w->leading);
}

int pg__words_are_copies(const pg__words *w)
{
    for (size_t k = 0; k < N; k++)
        if (words[k].where == COPY && w->leading & 1u << k)
            return 1;
    return 0;
}

/* torch.optim.swa_utils.AveragedModel: the module, and how many were averaged. */
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

/* Of the words in `leading` those that every name has at its beginning; copies may stand beside the
 * original, which is called "module". */
static unsigned shared_by_all(const pg_store *s, unsigned leading, size_t but)
{
    const unsigned copy = words_that_are(COPY), either = copy | 1u;
    unsigned all = leading, some = 0;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const taken t = i == but ? (taken){0} : strip(NULL, pg_store_weight(s, i)->name, leading);
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

/* Copies have different numbers, or the original beside them. With one number "replicas" is a list
 * of modules that the user calls so. */
static int are_several(const pg_store *s, unsigned leading)
{
    const char *first = NULL;
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const taken t = strip(NULL, pg_store_weight(s, i)->name, leading);
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

/* Looks for a part of a name that is a wrapper's, and that is not known. */
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
        const taken t = strip(NULL, name, out->leading);
        for (size_t k = 0; k < N; k++)
            out->n[k] += t.words >> k & 1;
        out->n_names += t.words != 0;
        out->inner = out->inner == PG_NONE && t.inner ? i : out->inner;
        out->prefix = first ? out->prefix : t.at_front;
        first = first ? first : name;
        same &= !t.later && t.at_front == out->prefix && memcmp(name, first, t.at_front) == 0;
    }
    if (!same)
        out->prefix = 0;
}

static void find_words(pg__words *out, const pg_store *s)
{
    *out = (pg__words){.counter = find_counter(s), .odd = PG_NONE, .inner = PG_NONE};
    if (pg_store_n_layers(s))
        return;
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
    count(out, s);
}

const pg__recogniser pg__rec_prefix = {
    .name = "pytorch",
    .doc = "DataParallel, DistributedDataParallel, torch.compile, FSDP, activation checkpointing: "
           "words in names",
    .words = find_words,
};
