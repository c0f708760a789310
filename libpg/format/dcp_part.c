/* dcp_part.c - which tensors of a checkpoint are the model's.
 *
 * dcp.save() takes nested dictionaries: {"model": ..., "optimizer": ...}, {"app": {...}}, or a
 * state_dict alone. .metadata keeps the keys on the way to each tensor, so the model is the first
 * container, from outside, that holds tensors itself; what belongs to training is known by the
 * container's key, or because it holds nothing but an optimizer's slots. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"
#include "store/part_name.h"

#define MAX_ASKED 8u

/* What is in a container. */
typedef struct group {
    const char *key; /* of a tensor */
    int other;       /* something that is no slot of an optimizer */
    int slot;        /* a slot that is surely one */
} group;

typedef struct choice {
    const pg__dcp *d;
    size_t *v; /* tensors that are left */
    size_t n;
    size_t depth;  /* keys that they have in common */
    size_t strip;  /* bytes of their names, keys joined with dots, that are not of the part */
    group *groups; /* containers at this depth, in the order of their keys */
    size_t n_groups;
    pg_err *err;
} choice;

static int is_training_key(const char *key)
{
    static const char *const keys[] = {
        "optimizer",        "optim",        "opt",           "optimizers", "optimizer_state_dict",
        "optimizer_states", "lr_scheduler", "lr_schedulers", "scheduler",  "schedulers",
        "dataloader",       "train_state",  "rng_state",     "rng_states", "scaler"};
    /* Lightning numbers them */
    return PG_IS_ANY(key, keys) || (strncmp(key, "optimizer_", 10) == 0 && key[10] &&
                                    !key[10 + strspn(key + 10, "0123456789")]);
}

/* Keys of tensors that stand beside a model, or beside its weights. */
static int is_training_tensor(const char *key)
{
    static const char *const keys[] = {"rng_state",      "rng_states",      "cpu_rng_state",
                                       "cuda_rng_state", "torch_rng_state", "random_rng_state",
                                       "np_rng_state",   "cuda_rng_states", "rng"};
    return PG_IS_ANY(key, keys);
}

static int is_sure_slot(const char *key)
{
    static const char *const keys[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer",
                                       "square_avg"};
    return PG_IS_ANY(key, keys);
}

static int is_slot(const char *key)
{
    static const char *const keys[] = {"step", "sum"};
    return is_sure_slot(key) || PG_IS_ANY(key, keys);
}

size_t pg__dcp_slot_cut(const char *name)
{
    const char *last = strrchr(name, '.');
    return last && last > name && is_slot(last + 1) ? (size_t)(last - name) : 0;
}

size_t pg__dcp_training_cut(const char *name)
{
    char first[32];
    const char *dot = strchr(name, '.');
    const size_t n = dot ? (size_t)(dot - name) : 0;
    if (n > 0 && n < sizeof first) {
        memcpy(first, name, n);
        first[n] = 0;
        if (is_training_key(first))
            return n;
    }
    return pg__dcp_slot_cut(name);
}

static int is_number(const pg__dcp_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < t->tiled.rank; k++)
        n *= t->tiled.dims[k];
    return n == 1 && !t->is_complex;
}

/* The container of a tensor at this depth, or NULL: the tensor itself is there. */
static const char *container_at(const pg__dcp_tensor *t, size_t depth)
{
    return t->n_path > depth + 1 ? t->path[depth] : NULL;
}

static const char *container(const choice *c, size_t i)
{
    return container_at(&c->d->v[c->v[i]], c->depth);
}

/* ---- containers ---- */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const group *)a)->key, ((const group *)b)->key);
}

/* Sorts one group for each tensor, and makes one of equal ones. */
static pg_status survey(choice *c)
{
    size_t n = 0, kept = 0;
    pg__mem_free(c->groups);
    c->n_groups = 0;
    c->groups = pg__mem_array(c->n, sizeof *c->groups);
    if (!c->groups)
        return pg__nomem(c->err);
    for (size_t i = 0; i < c->n; i++) {
        const pg__dcp_tensor *t = &c->d->v[c->v[i]];
        const char *key = container(c, i), *own = t->path[t->n_path - 1];
        if (key)
            c->groups[n++] = (group){key, !is_slot(own), is_sure_slot(own)};
    }
    if (n)
        qsort(c->groups, n, sizeof *c->groups, by_key);
    for (size_t i = 0; i < n; i++)
        if (kept && strcmp(c->groups[kept - 1].key, c->groups[i].key) == 0) {
            c->groups[kept - 1].other |= c->groups[i].other;
            c->groups[kept - 1].slot |= c->groups[i].slot;
        } else {
            c->groups[kept++] = c->groups[i];
        }
    c->n_groups = kept;
    return PG_OK;
}

/* Only slots of an optimizer are in it: of Adagrad, two that alone prove nothing. */
static int holds_slots(const choice *c, const char *key)
{
    const group wanted = {.key = key};
    const group *g = bsearch(&wanted, c->groups, c->n_groups, sizeof wanted, by_key);
    return g && !g->other && g->slot;
}

/* Belongs to training, as its key at this depth says. */
static int is_training(const choice *c, size_t i)
{
    const char *key = container(c, i);
    return key ? is_training_key(key) || holds_slots(c, key)
               : is_training_tensor(c->d->v[c->v[i]].path[c->depth]);
}

/* The containers at this depth that could be the model. */
static pg_status list_containers(pg__strs *out, const choice *c)
{
    pg_status st = PG_OK;
    for (size_t i = 0; i < c->n_groups; i++) {
        const char *key = c->groups[i].key;
        if (!is_training_key(key) && !holds_slots(c, key))
            PG_TRY(pg__strs_add(out, key, strlen(key), c->err));
    }
done:
    return st;
}

/* Keeps the tensors of a container. */
static pg_status enter(choice *c, const char *key)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++) {
        const char *at = container(c, i);
        if (at && strcmp(at, key) == 0)
            c->v[kept++] = c->v[i];
    }
    c->n = kept;
    c->depth++;
    c->strip += strlen(key) + 1;
    return survey(c);
}

static int holds_tensors(const choice *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (!container(c, i) && !is_training(c, i) && !is_number(&c->d->v[c->v[i]]))
            return 1;
    return 0;
}

/* "app.model" for the first keys of a tensor. */
static pg_status join(pg__str *out, const pg__dcp_tensor *t, size_t from, size_t to, pg_err *err)
{
    pg_status st = PG_OK;
    out->n = 0;
    for (size_t k = from; k < to; k++)
        PG_TRY(pg__str_printf(out, err, "%s%s", k > from ? "." : "", t->path[k]));
done:
    return st;
}

static pg_status ask(const choice *c, const pg__strs *models)
{
    pg_err *err = c->err;
    pg_status st = PG_OK;
    pg__str path = {0};
    PG_TRY(join(&path, &c->d->v[c->v[0]], 0, c->depth, err));
    if (path.n)
        PG_TRY(pg__str_puts(&path, ".", err));
    const size_t n = path.n;
    (void)pg_fail(err, PG_E_AMBIGUOUS, "%zu parts could be the model", models->n);
    for (size_t i = 0; i < models->n; i++) {
        path.n = n;
        PG_TRY(pg__str_puts(&path, models->v[i], err));
        if (i < MAX_ASKED)
            pg_err_detail(err, "%s", PG_SHOW(path.s));
        if (i == pg__part_likely(models)) {
            pg_err_do(err, PG_DO_CHOOSE_PART, NULL);
            pg_err_arg(err, "part", "%s", path.s);
        }
    }
    if (models->n > MAX_ASKED)
        pg_err_detail(err, "and %zu more", models->n - MAX_ASKED);
    st = PG_E_AMBIGUOUS;
done:
    pg__str_fini(&path);
    return st;
}

/* Narrows the choice to the model. */
static pg_status find_model(choice *c)
{
    pg_status st = PG_OK;
    pg_err *err = c->err;
    pg__strs models = {0};
    while (!holds_tensors(c)) {
        PG_TRY(list_containers(&models, c));
        if (models.n == 0 && c->n == 0)
            PG_FAIL(PG_E_UNSUPPORTED, "a checkpoint without tensors");
        if (models.n == 0)
            break; /* single numbers alone */
        if (models.n > 1) {
            st = ask(c, &models);
            goto done;
        }
        PG_TRY(enter(c, models.v[0]));
        pg__strs_fini(&models);
        models = (pg__strs){0};
    }
done:
    pg__strs_fini(&models);
    return st;
}

/* Is it in the part, or the part itself? Keys that were guessed are taken apart anywhere. */
static pg_status is_of_part(int *is, const pg__dcp_tensor *t, const char *part, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    const size_t n = strlen(part);
    *is = 0;
    PG_TRY(join(&path, t, 0, t->n_path, err));
    *is = strcmp(path.s, part) == 0 ||
          (t->guessed && strncmp(path.s, part, n) == 0 && path.s[n] == '.');
    for (size_t k = 1; k < t->n_path && !*is; k++) {
        PG_TRY(join(&path, t, 0, k, err));
        *is = strcmp(path.s, part) == 0;
    }
done:
    pg__str_fini(&path);
    return st;
}

/* What the parts are called, from outside. */
static pg_status list_parts(pg__strs *out, const choice *c)
{
    pg_status st = PG_OK;
    for (size_t i = 0; st == PG_OK && i < c->n; i++) {
        const char *key = container_at(&c->d->v[c->v[i]], 0);
        if (key)
            st = pg__part_note(out, key, strlen(key), c->err);
    }
    return st;
}

/* Narrows the choice to the container whose keys, joined with dots, are `part`. */
static pg_status find_part(choice *c, const char *part, int is_word)
{
    pg_status st = PG_OK;
    pg__strs there = {0};
    const char *meant = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++) {
        int is = 0;
        PG_TRY(is_of_part(&is, &c->d->v[c->v[i]], part, c->err));
        if (is)
            c->v[kept++] = c->v[i];
    }
    if (kept == 0 && is_word) {
        PG_TRY(list_parts(&there, c));
        PG_TRY(pg__part_meant(&meant, part, &there, c->err));
        st = find_part(c, meant, 0);
        goto done;
    }
    c->n = kept;
    c->strip = strlen(part) + 1;
done:
    pg__strs_fini(&there);
    return st;
}

/* ---- the part ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pg_status check_unique(const pg__strs *names, pg_err *err)
{
    pg_status st = PG_OK;
    char **v = pg__mem_array(names->n, sizeof *v);
    if (!v)
        return pg__nomem(err);
    for (size_t i = 0; i < names->n; i++)
        v[i] = names->v[i];
    if (names->n)
        qsort(v, names->n, sizeof *v, by_name);
    for (size_t i = 1; i < names->n; i++)
        if (strcmp(v[i - 1], v[i]) == 0)
            PG_FAIL(PG_E_FORMAT, "two tensors are called %s", PG_SHOW(v[i]));
done:
    pg__mem_free(v);
    return st;
}

/* Splits what is left into the part and, unless it was asked for, what belongs to training. */
static pg_status take(pg__dcp_part *out, const choice *c, int with_training)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    for (size_t i = 0; i < c->n; i++) {
        const pg__dcp_tensor *t = &c->d->v[c->v[i]];
        if (!with_training && is_training(c, i))
            continue;
        PG_TRY(join(&name, t, 0, t->n_path, c->err));
        /* a part that is one tensor keeps its own key */
        const char *own = name.n < c->strip ? t->path[t->n_path - 1] : name.s + c->strip;
        PG_TRY(pg__strs_add(&out->names, own, strlen(own), c->err));
        out->tensor[out->n++] = c->v[i];
    }
    st = check_unique(&out->names, c->err);
done:
    pg__str_fini(&name);
    return st;
}

static pg_status list_others(pg__dcp_part *out, const pg__dcp *d, pg_err *err)
{
    if (d->objects.n == 0)
        return PG_OK;
    return pg__str_printf(&out->others, err, "%zu object%s (%s%s)", d->objects.n,
                          d->objects.n == 1 ? "" : "s", PG_SHOW(d->objects.v[0]),
                          d->objects.n > 1 ? ", ..." : "");
}

pg_status pg__dcp_part_of(pg__dcp_part *out, const pg__dcp *d, const char *part, pg_err *err)
{
    pg_status st = PG_OK;
    pg__dcp_part p = {0};
    unsigned char *taken = NULL;
    choice c = {.d = d, .v = pg__mem_array(d->n, sizeof(size_t)), .n = d->n, .err = err};
    const int all = part && strcmp(part, ".") == 0;
    p.tensor = pg__mem_array(d->n, sizeof *p.tensor);
    p.state = pg__mem_array(d->n, sizeof *p.state);
    taken = pg__mem_array(d->n, 1);
    if (!c.v || !p.tensor || !p.state || !taken)
        PG_TRY(pg__nomem(err));
    for (size_t i = 0; i < d->n; i++)
        c.v[i] = i;
    PG_TRY(survey(&c));
    if (!part)
        PG_TRY(find_model(&c));
    else if (!all)
        PG_TRY(find_part(&c, part, 1));
    PG_TRY(take(&p, &c, part != NULL));
    for (size_t i = 0; i < p.n; i++)
        taken[p.tensor[i]] = 1;
    for (size_t i = 0; i < d->n && !part; i++)
        if (!taken[i])
            p.state[p.n_state++] = i;
    PG_TRY(list_others(&p, d, err));
    *out = p;
    p = (pg__dcp_part){0};
done:
    pg__mem_free(c.v);
    pg__mem_free(c.groups);
    pg__mem_free(taken);
    pg__dcp_part_fini(&p);
    return st;
}

void pg__dcp_part_fini(pg__dcp_part *p)
{
    pg__mem_free(p->tensor);
    pg__mem_free(p->state);
    pg__strs_fini(&p->names);
    pg__str_fini(&p->others);
    *p = (pg__dcp_part){0};
}
