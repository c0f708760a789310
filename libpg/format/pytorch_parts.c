/* pytorch_parts.c - what a checkpoint is made of.
 *
 * torch.save() takes any object, so checkpoints are dictionaries that everyone lays out in their
 * own way. A part is a container with named tensors, and is recognised by its form; its key is only
 * secondary evidence: state and param_groups make an optimizer, last_epoch a scheduler, bytes of
 * certain lengths below a key that says so the state of a random generator. Whatever else holds
 * more than single numbers could be a model. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/pytorch_impl.h"

#define TRAINING_DEPTH 8u /* nested containers of which only the key indicates training */

/* pg__pt_walk.forms: what is known about a value; the form itself, plus 1, above these bits. */
enum { ASKED_SLOTS = 1, IS_SLOTS = 2, FORM_SHIFT = 2, NO_FORM = 1 };

typedef struct survey {
    pg__pt_walk *w;
    pg__pt_parts *out;
    unsigned char *listed; /* of each value: it is a part already */
    pg__str path;
    int dotted;        /* a model's tensor has a name with a dot */
    unsigned in_model; /* containers around the current one whose keys are those of a model */
} survey;

const char *pg__pt_kind_name(pg__pt_kind k)
{
    static const char *const names[] = {"model",     "numbers", "tensor",
                                        "number",    "object",  "optimizer",
                                        "scheduler", "scaler",  "random generator"};
    return names[k];
}

/* ---- keys ---- */

/* Words of a key: "cuda_rng_state", "gOptim", "model.ema" in lower case. */
static int next_word(const char **at, const char *end, char out[32])
{
    size_t n = 0;
    const char *p = *at;
    while (p < end && !isalnum((unsigned char)*p))
        p++;
    for (; p < end && isalnum((unsigned char)*p); p++) {
        if (n && isupper((unsigned char)*p) && islower((unsigned char)p[-1]))
            break;
        if (n < 31)
            out[n++] = (char)tolower((unsigned char)*p);
    }
    out[n] = 0;
    *at = p;
    return n > 0;
}

/* Does a word of the key begin with one of these? A final '$' requires the whole word. */
static int says(const char *key, size_t n_key, const char *const *words)
{
    char word[32];
    for (const char *at = key; next_word(&at, key + n_key, word);)
        for (const char *const *w = words; *w; w++) {
            const size_t n = **w == *word ? strlen(*w) : 0; /* 0 of nearly all, often very many */
            if (n && ((*w)[n - 1] == '$' ? strlen(word) == n - 1 && memcmp(word, *w, n - 1) == 0
                                         : strncmp(word, *w, n) == 0))
                return 1;
        }
    return 0;
}

static int key_says(const pg__pk_value *key, const char *const *words)
{
    return key && key->kind == PG_PK_STR && says(key->u.text, key->n, words);
}

/* ---- state of training, recognised by its form ---- */

static int has(const pg__pickle *p, const pg__pk_value *dict, const char *key)
{
    return pg__pickle_get(p, dict, key) != NULL;
}

/* torch.optim; DeepSpeed's ZeRO and fp16 optimizers; apex. */
static int is_optimizer(const pg__pickle *p, const pg__pk_value *v)
{
    static const char *const others[] = {"base_optimizer_state", "fp32_flat_groups",
                                         "fp32_groups_flat",     "single_partition_of_fp32_groups",
                                         "fp32_from_fp16",       "fp32_from_fp16_params"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has(p, v, others[i]))
            return 1;
    return has(p, v, "state") && has(p, v, "param_groups");
}

static int is_slots(pg__pt_walk *w, const pg__pk_value *v, unsigned depth);

/* One value may be in very many places, so the answer is stored. */
static int is_slots_of_one(pg__pt_walk *w, const pg__pk_value *v)
{
    unsigned char *known = &w->forms[v - w->p->v];
    if (!(*known & ASKED_SLOTS))
        *known |= ASKED_SLOTS | (is_slots(w, v, 0) ? IS_SLOTS : 0);
    return (*known & IS_SLOTS) != 0;
}

/* The slots of one parameter or, with depth 1, of all parameters under their names. */
static int is_slots(pg__pt_walk *w, const pg__pk_value *v, unsigned depth)
{
    const pg__pickle *p = w->p;
    static const char *const slots[] = {"exp_avg",  "exp_avg_sq", "max_exp_avg_sq",  "square_avg",
                                        "grad_avg", "acc_delta",  "momentum_buffer", "exp_inf"};
    size_t n = 0;
    if (!pg__pickle_is_dict(p, v))
        return 0;
    for (pg__pt_entries e = pg__pt_entries_of(p, v); pg__pt_next(&e);) {
        int known = depth && is_slots_of_one(w, e.value);
        for (size_t i = 0; e.key && i < sizeof slots / sizeof *slots; i++)
            known |= pg__pickle_is(e.key, slots[i]);
        n += known != 0;
        if (!known && (depth || !pg__pickle_is(e.key, "step")))
            return 0;
    }
    return n > 0;
}

static int is_scheduler(const pg__pickle *p, const pg__pk_value *v)
{
    return has(p, v, "last_epoch") &&
           (has(p, v, "_step_count") || has(p, v, "base_lrs") || has(p, v, "_last_lr"));
}

/* An object of PyTorch itself, pickled as a whole. */
static int is_training_class(pg__pt_kind *kind, const pg__pk_foreign *f)
{
    static const struct {
        const char *module;
        pg__pt_kind kind;
    } modules[] = {{"torch.optim.lr_scheduler", PG_PT_SCHEDULER},
                   {"torch.optim", PG_PT_OPTIMIZER},
                   {"torch.cuda.amp", PG_PT_SCALER},
                   {"torch.amp", PG_PT_SCALER}};
    for (size_t i = 0; f && i < sizeof modules / sizeof *modules; i++) {
        const size_t n = strlen(modules[i].module);
        if (f->n_module >= n && memcmp(f->module, modules[i].module, n) == 0 &&
            (f->n_module == n || f->module[n] == '.')) {
            *kind = modules[i].kind;
            return 1;
        }
    }
    return 0;
}

static const char *const optimizer_words[] = {"optimizer", "optimiser", "optim$",
                                              "optims$",   "opt$",      NULL};
static const char *const scheduler_words[] = {"sched", "lrsched", NULL};
static const char *const scaler_words[] = {"scaler", "gradscaler", "amp$", NULL};
static const char *const random_words[] = {
    "rng",  "random$", "seed$",  "seeds$", "cpu$",       "cuda$",       "gpu$", "mps$",
    "xpu$", "torch$",  "numpy$", "np$",    "generator$", "generators$", NULL};
/* What is a number beside a model although it was trained: a loss that was not detached. */
static const char *const metric_words[] = {"loss",  "acc",  "best",  "metric", "score",
                                           "error", "err$", "value", "step",   NULL};

/* A generator's state: 5,056 bytes on the CPU, 16 or 824,016 on NVIDIA's GPUs, 44 on Apple's, below
 * a key that says so (a mask may be as long); NumPy's 624 words. above: the key of the container.
 */
static int is_random(const pg__pt_tensor *t, const pg__pk_value *key, const pg__pk_value *above)
{
    static const uint64_t lengths[] = {16, 44, 5048, 5056, 824016};
    if (t->view.rank != 1)
        return 0;
    if (t->dtype == PG_U32 && t->view.dims[0] == 624)
        return 1;
    for (size_t i = 0; t->dtype == PG_U8 && i < sizeof lengths / sizeof *lengths; i++)
        if (t->view.dims[0] == lengths[i])
            return key_says(key, random_words) || key_says(above, random_words);
    return 0;
}

/* ---- tensors ---- */

int pg__pt_is_number(const pg__pt_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->view.rank; i++)
        n = t->view.dims[i] == 1 ? n : 0;
    return n == 1;
}

/* Classifies a tensor beside a model; *n is the number of its elements. One that cannot be read may
 * be anything. */
static pg__pt_kind kind_of_tensor(const pg__pickle *p, const pg__pk_value *v,
                                  const pg__pk_value *key, const pg__pk_value *above, uint64_t *n)
{
    pg__pt_tensor t = {0};
    *n = 0;
    if (pg__pickle_foreign(p, v))
        return PG_PT_OBJECT;
    if (pg__pt_read_tensor(&t, p, v, NULL) != PG_OK)
        return PG_PT_LOOSE;
    *n = 1;
    pg__pt_cut whole;
    const int cut = t.cut && pg__pt_read_cut(&whole, p, v, NULL) == PG_OK;
    for (uint32_t i = 0; i < (cut ? whole.rank : t.view.rank); i++)
        if (__builtin_mul_overflow(*n, cut ? whole.dims[i] : t.view.dims[i], n))
            *n = UINT64_MAX;
    if (t.cut)
        return PG_PT_LOOSE;
    if (is_random(&t, key, above))
        return PG_PT_RANDOM;
    const int trained = pg__pt_is_trained(p, v) && !key_says(key, metric_words);
    return pg__pt_is_number(&t) && !trained ? PG_PT_NUMBER : PG_PT_LOOSE;
}

/* "layers.0.weight", "weight": identifiers and numbers separated by dots, or a usual name alone. */
static int is_module_path(const pg__pk_value *key)
{
    static const char *const usual[] = {"weight", "bias", "running_mean", "running_var",
                                        "in_proj_weight"};
    int dots = 0;
    if (!key || key->kind != PG_PK_STR)
        return 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (pg__pickle_is(key, usual[i]))
            return 1;
    for (uint32_t i = 0; i < key->n; i++) {
        const unsigned char c = (unsigned char)key->u.text[i];
        if (c == '.')
            dots++;
        else if (!isalnum(c) && c != '_')
            return 0;
    }
    return dots > 0;
}

/* Does the value below v look like the kind that its key says? A random state is bytes, the others
 * have at most single numbers. */
static int fits_kind(pg__pt_walk *w, pg__pt_kind kind, const pg__pk_value *v,
                     const pg__pk_value *above, unsigned depth)
{
    for (pg__pt_entries e = pg__pt_entries_of(w->p, v); pg__pt_next(&e);) {
        uint64_t n;
        if (w->steps == 0 || depth == 0)
            return 0;
        w->steps--;
        if (!pg__pt_is_tensor(w->p, e.value)) {
            if (!fits_kind(w, kind, e.value, above, depth - 1))
                return 0;
            continue;
        }
        const pg__pt_kind is = kind_of_tensor(w->p, e.value, e.key, above, &n);
        if (is != PG_PT_NUMBER && (kind != PG_PT_RANDOM || is != kind))
            return 0;
    }
    return 1;
}

/* The same of an optimizer: below "state" or "param_groups" anything but names of modules'
 * tensors; elsewhere at most single numbers, and what has an optimizer's form. */
static int fits_optimizer(pg__pt_walk *w, const pg__pk_value *v, int inside, unsigned depth)
{
    pg__pt_kind kind;
    if (depth < TRAINING_DEPTH && pg__pt_is_training(&kind, w, v))
        return 1;
    inside |=
        pg__pickle_is_dict(w->p, v) && (has(w->p, v, "state") || has(w->p, v, "param_groups"));
    for (pg__pt_entries e = pg__pt_entries_of(w->p, v); pg__pt_next(&e);) {
        uint64_t n;
        if (w->steps == 0 || depth == 0)
            return 0;
        w->steps--;
        if (!pg__pt_is_tensor(w->p, e.value) ? !fits_optimizer(w, e.value, inside, depth - 1)
            : inside                         ? is_module_path(e.key)
                     : kind_of_tensor(w->p, e.value, e.key, NULL, &n) != PG_PT_NUMBER)
            return 0;
    }
    return 1;
}

static int find_form(pg__pt_kind *kind, pg__pt_walk *w, const pg__pk_value *v)
{
    const pg__pickle *p = w->p;
    if (is_training_class(kind, pg__pickle_foreign(p, v)))
        return 1;
    if (!pg__pickle_is_dict(p, v))
        return 0;
    *kind = PG_PT_OPTIMIZER;
    if (is_optimizer(p, v) || is_slots_of_one(w, v) || is_slots(w, v, 1))
        return 1;
    *kind = PG_PT_SCALER;
    if (has(p, v, "growth_factor") && has(p, v, "growth_interval"))
        return 1;
    *kind = PG_PT_SCHEDULER;
    return is_scheduler(p, v);
}

int pg__pt_is_training(pg__pt_kind *kind, pg__pt_walk *w, const pg__pk_value *v)
{
    unsigned char *known = &w->forms[v - w->p->v];
    if (!(*known >> FORM_SHIFT)) {
        pg__pt_kind form = PG_PT_MODEL;
        const unsigned found = find_form(&form, w, v) ? NO_FORM + 1u + form : NO_FORM;
        *known = (unsigned char)(*known | found << FORM_SHIFT);
    }
    const unsigned form = *known >> FORM_SHIFT;
    if (form > NO_FORM)
        *kind = (pg__pt_kind)(form - NO_FORM - 1u);
    return form > NO_FORM;
}

/* Recognised by form; or, with by_key, by key, if it contains nothing that a model would have. */
static int is_training(pg__pt_kind *kind, pg__pt_walk *w, const pg__pk_value *v,
                       const pg__pk_value *key, int by_key)
{
    static const struct {
        const char *const *words;
        pg__pt_kind kind;
    } kinds[] = {{optimizer_words, PG_PT_OPTIMIZER},
                 {scheduler_words, PG_PT_SCHEDULER},
                 {scaler_words, PG_PT_SCALER},
                 {random_words, PG_PT_RANDOM}};
    if (pg__pt_is_training(kind, w, v))
        return 1;
    if (!by_key || pg__pt_entries_of(w->p, v).next >= v->n)
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (key_says(key, kinds[i].words)) {
            *kind = kinds[i].kind;
            return *kind == PG_PT_OPTIMIZER ? fits_optimizer(w, v, 0, TRAINING_DEPTH)
                                            : fits_kind(w, *kind, v, key, TRAINING_DEPTH);
        }
    return 0;
}

/* ---- contents ---- */

/* The tensors directly in a container, and those below it. */
typedef struct content {
    uint64_t n[PG_PT_RANDOM + 1]; /* by kind */
    uint64_t n_direct, n_params, n_nested, n_training;
    int module_like; /* all names of tensors are paths of modules */
    int dotted;      /* a name of a tensor has a dot */
    int by_key;      /* of values that belong to training: the keys count */
} content;

static int has_dot(const pg__pk_value *key)
{
    return key && key->kind == PG_PK_STR && memchr(key->u.text, '.', key->n) != NULL;
}

static int is_model_key(const pg__pk_value *key)
{
    static const char *const keys[] = {
        "state_dict", "model_state_dict", "model_state", "model",  "module",
        "net",        "network",          "weights",     "params", "generator"};
    for (size_t i = 0; key && i < sizeof keys / sizeof *keys; i++)
        if (pg__pickle_is(key, keys[i]))
            return 1;
    return 0;
}

/* A container that is certainly a model: by its key, or by the paths that name its tensors. */
static int is_sure_model(pg__pt_walk *w, const pg__pt_entries *at)
{
    pg__pt_entries e = pg__pt_entries_of(w->p, at->value);
    if (e.next < e.of->n && is_model_key(at->key))
        return 1;
    while (w->steps && pg__pt_next(&e)) {
        w->steps--;
        if (pg__pt_is_tensor(w->p, e.value))
            return has_dot(e.key) && is_module_path(e.key);
    }
    return 0;
}

/* A key such as "opt" indicates training only beside a model: inside one, it names a module. */
static int keys_count(const survey *s, const pg__pk_value *v)
{
    int sure = 0;
    for (pg__pt_entries e = pg__pt_entries_of(s->w->p, v); !s->in_model && pg__pt_next(&e);) {
        if (!pg__pt_is_tensor(s->w->p, e.value))
            sure = sure || is_sure_model(s->w, &e);
        else if (is_module_path(e.key))
            return 0;
    }
    return sure;
}

static pg_status look_into(content *c, survey *s, const pg__pk_value *v, const pg__pk_value *key)
{
    uint64_t n = 0;
    pg_status st = PG_OK;
    *c = (content){.module_like = 1, .by_key = keys_count(s, v)};
    for (pg__pt_entries e = pg__pt_entries_of(s->w->p, v); pg__pt_next(&e);) {
        PG_TRY(pg__pt_step(s->w));
        if (!pg__pt_is_tensor(s->w->p, e.value)) {
            pg__pt_kind ignored;
            if (is_training(&ignored, s->w, e.value, e.key, c->by_key)) {
                c->n_training++;
                continue;
            }
            PG_TRY(pg__pt_count(s->w, e.value, &n));
            c->n_nested += n;
            continue;
        }
        c->n[kind_of_tensor(s->w->p, e.value, e.key, key, &n)]++;
        c->n_direct++;
        c->module_like &= is_module_path(e.key);
        c->dotted |= has_dot(e.key);
        if (__builtin_add_overflow(c->n_params, n, &c->n_params))
            c->n_params = UINT64_MAX;
    }
    c->module_like &= c->n_direct > 0;
done:
    return st;
}

/* ---- parts ---- */

/* A part at the current path, which is "." for the root. One value under two keys is one part. */
static pg_status add_part(survey *s, pg__pt_kind kind, const pg__pk_value *v,
                          const pg__pk_value *key, uint64_t n, uint64_t n_params)
{
    pg__pt_parts *l = s->out;
    const char *path = s->path.n ? s->path.s : ".";
    const uint32_t value = (uint32_t)(v - s->w->p->v);
    if (kind <= PG_PT_OBJECT && s->listed[value])
        return PG_OK;
    if (pg__mem_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v))
        return pg__nomem(s->w->err);
    s->listed[value] = 1;
    l->v[l->n++] = (pg__pt_part){.kind = kind,
                                 .path = l->texts.n,
                                 .value = value,
                                 .n_tensors = n,
                                 .n_params = n_params,
                                 .by_name = s->path.n && is_model_key(key)};
    return pg__str_add(&l->texts, path, strlen(path) + 1, s->w->err);
}

static pg_status look(survey *s, const pg__pk_value *v, const pg__pk_value *key, int by_key,
                      unsigned depth);

/* The members of a container; if it is a part itself, only those that belong to training. */
static pg_status look_at_members(survey *s, const pg__pk_value *v, const pg__pk_value *key,
                                 int by_key, unsigned depth, int is_part)
{
    const size_t n = s->path.n;
    uint64_t n_params = 0;
    pg_status st = PG_OK;
    for (pg__pt_entries e = pg__pt_entries_of(s->w->p, v); pg__pt_next(&e); s->path.n = n) {
        const int tensor = pg__pt_is_tensor(s->w->p, e.value);
        uint64_t held = 1;
        pg__pt_kind kind;
        const int training = !tensor && is_training(&kind, s->w, e.value, e.key, by_key);
        if (!tensor)
            PG_TRY(pg__pt_count(s->w, e.value, &held));
        if (!training && (is_part || held == 0))
            continue;
        if (s->path.n)
            PG_TRY(pg__str_puts(&s->path, ".", s->w->err));
        PG_TRY(pg__pt_add_key(&s->path, &e, s->w->err));
        if (tensor) {
            kind = kind_of_tensor(s->w->p, e.value, e.key, key, &n_params);
            PG_TRY(add_part(s, kind, e.value, e.key, 1, n_params));
        } else {
            PG_TRY(look(s, e.value, e.key, by_key, depth + 1));
        }
    }
    if (s->path.s)
        s->path.s[n] = 0;
done:
    return st;
}

/* Tensors that could form a model. Single numbers are metrics, unless their names or their key are
 * those of a model: Linear(1, 1). */
static int could_be_model(const content *c, const pg__pk_value *key)
{
    return c->n[PG_PT_LOOSE] || c->n[PG_PT_OBJECT] ||
           (c->n[PG_PT_NUMBER] && (c->module_like || is_model_key(key)));
}

/* Several parts below a model's key, from `first` on, may be the model of nested dictionaries. */
static pg_status add_named_whole(survey *s, const pg__pk_value *v, const pg__pk_value *key,
                                 size_t first)
{
    uint64_t n = 0, n_all = 0, n_params = 0;
    size_t n_parts = 0;
    pg_status st = PG_OK;
    for (size_t i = first; i < s->out->n; i++) {
        const pg__pt_part *x = &s->out->v[i];
        if (x->kind == PG_PT_OBJECT || x->whole)
            return PG_OK;
        if (x->kind != PG_PT_MODEL && x->kind != PG_PT_LOOSE && x->kind != PG_PT_SCALARS)
            continue;
        n_parts += x->kind != PG_PT_SCALARS;
        n_all += x->n_tensors;
        if (__builtin_add_overflow(n_params, x->n_params, &n_params))
            n_params = UINT64_MAX;
    }
    if (n_parts < 2)
        return PG_OK;
    PG_TRY(pg__pt_count(s->w, v, &n));
    const size_t at = s->out->n;
    PG_TRY(add_part(s, PG_PT_MODEL, v, key, n < n_all ? n : n_all, n_params));
    if (s->out->n > at)
        s->out->v[at].whole = -1;
done:
    return st;
}

static pg_status look(survey *s, const pg__pk_value *v, const pg__pk_value *key, int by_key,
                      unsigned depth)
{
    const int model_key = is_model_key(key);
    pg_status st = PG_OK;
    pg__pt_kind kind;
    content c;
    uint64_t n = 0;
    const pg__pt_entries e = pg__pt_entries_of(s->w->p, v);
    if (depth > PG_LIMIT_PICKLE_DEPTH)
        return pg_fail(s->w->err, PG_E_LIMIT, "containers inside containers, more than %u deep",
                       PG_LIMIT_PICKLE_DEPTH);
    s->in_model += (unsigned)model_key;
    st = look_into(&c, s, v, key);
    s->in_model -= (unsigned)model_key;
    PG_TRY(st);
    PG_TRY(pg__pt_count(s->w, v, &n));
    if (is_training(&kind, s->w, v, key, by_key))
        return add_part(s, kind, v, key, n, 0);
    if (e.next >= v->n) /* not a container: anything else that holds tensors is an object */
        return n ? add_part(s, PG_PT_OBJECT, v, key, n, 0) : PG_OK;
    /* names of modules include what lies deeper: a module's extra state */
    if (could_be_model(&c, key) && (!c.n_nested || (c.module_like && c.n_direct >= c.n_nested))) {
        PG_TRY(add_part(s, PG_PT_MODEL, v, key, c.n_direct + c.n_nested, c.n_params));
        s->dotted |= c.dotted;
        return look_at_members(s, v, key, 0, depth, 1);
    }
    if (c.n[PG_PT_NUMBER] && !c.n_nested && c.n_direct == c.n[PG_PT_NUMBER] && !c.n_training)
        return add_part(s, PG_PT_SCALARS, v, key, n, c.n_params);
    const size_t first = s->out->n;
    s->in_model += (unsigned)model_key;
    st = look_at_members(s, v, key, c.by_key, depth, 0);
    s->in_model -= (unsigned)model_key;
    PG_TRY(st);
    if (model_key)
        PG_TRY(add_named_whole(s, v, key, first));
done:
    return st;
}

/* Several parts that are not clearly models may be one model: nested dictionaries of parameters. If
 * tensor names contain dots, they are more likely several models. */
static pg_status add_whole(survey *s, const pg__pk_value *root)
{
    pg__pt_parts *l = s->out;
    uint64_t n = 0, n_params = 0;
    size_t likely = 0, numbers = 0;
    pg_status st = PG_OK;
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].kind >= PG_PT_OBJECT || l->v[i].by_name)
            return PG_OK;
        likely += l->v[i].kind == PG_PT_MODEL || l->v[i].kind == PG_PT_LOOSE;
        numbers += l->v[i].kind == PG_PT_SCALARS;
        if (__builtin_add_overflow(n_params, l->v[i].n_params, &n_params))
            n_params = UINT64_MAX;
    }
    if ((likely ? likely : numbers) < 2)
        return PG_OK;
    PG_TRY(pg__pt_count(s->w, root, &n));
    PG_TRY(add_part(s, PG_PT_MODEL, root, NULL, n, n_params));
    l->v[l->n - 1].whole = s->dotted ? 1 : -1;
done:
    return st;
}

pg_status pg__pt_list_parts(pg__pt_parts *out, pg__pt_walk *w)
{
    const pg__pk_value *root = &w->p->v[w->p->root];
    survey s = {.w = w, .out = out};
    uint64_t n = 0;
    pg_status st = PG_OK;
    s.listed = pg__mem_array(w->p->n, 1);
    if (!s.listed)
        return pg__nomem(w->err);
    if (pg__pt_is_tensor(w->p, root)) {
        (void)kind_of_tensor(w->p, root, NULL, NULL, &n);
        st = add_part(&s, PG_PT_MODEL, root, NULL, 1, n);
    } else {
        st = look(&s, root, NULL, 0, 0);
        st = st == PG_OK ? add_whole(&s, root) : st;
    }
    pg__str_fini(&s.path);
    pg__mem_free(s.listed);
    return st;
}
