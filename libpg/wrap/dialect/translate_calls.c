/* translate_calls.c - translates inbound_nodes of Keras 2 to Keras 3, and back.
 *
 *     Keras 2   [["x", 0, 0, {"training": false}], ["y", 0, 0, {}]]
 *     Keras 3   {"args": [[T, T]], "kwargs": {"training": false}}, T holding ["x", 0, 0]
 *
 * Keras 2 numbers the calls of a nested model from 1, since building it was the first; Keras 3 from
 * 0, but in output_layers from 1 for functional models. A recurrent layer gets its states as more
 * inputs in Keras 2 and by name in 3; attention its second and third tensor by name in 2. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "wrap/dialect/translate.h"

/* A nested model. */
typedef struct inner {
    char *name; /* owned */
    int sequential;
    int from_0; /* Keras 2, but some call has number 0: it was not built before */
} inner;

typedef struct calls {
    pg__translating *t;
    inner *v;
    size_t n, cap;
    const char *class_name; /* of the current layer */
    int ok;                 /* 0: a call that the other Keras cannot express */
    pg__str out;
} calls;

static const char *const recurrent[] = {"RNN",        "SimpleRNN",  "LSTM",       "GRU",
                                        "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "Bidirectional",
                                        "CuDNNLSTM",  "CuDNNGRU"};

/* ---- references: [layer, call, tensor] ---- */

typedef struct reference {
    pg__json_span layer, call, tensor, rest;
} reference;

static int read_reference(reference *r, const char *text, pg__json_span s)
{
    pg__json_span *const parts[] = {&r->layer, &r->call, &r->tensor, &r->rest};
    size_t n = 0;
    *r = (reference){0};
    if (s.n < 2 || text[s.off] != '[')
        return 0;
    for (pg__json_walk w = pg__json_walk_of(text, s); pg__json_walk_next(&w); n++) {
        if (n == 4)
            return 0;
        *parts[n] = w.value;
    }
    return n >= 3 && text[r->layer.off] == '"' && strchr("-0123456789", text[r->call.off]) &&
           strchr("-0123456789", text[r->tensor.off]);
}

static long number(const char *text, pg__json_span s)
{
    return strtol(text + s.off, NULL, 10);
}

static inner *find(const calls *c, pg__json_span layer)
{
    for (size_t i = 0; i < c->n; i++)
        if (pg__json_is_text(c->t->text, layer, c->v[i].name))
            return &c->v[i];
    return NULL;
}

/* The number of a call in the other Keras. end: in output_layers. */
static long counted(const calls *c, const reference *r, int end)
{
    const long k = number(c->t->text, r->call);
    const inner *model = find(c, r->layer);
    if (!model || (end && !model->sequential))
        return k;
    return c->t->to == 2 ? k + 1 : model->from_0 ? k : k - 1;
}

/* ["x", 0, 0] with the other Keras' number, without the closing bracket. */
static pg_status put_reference(const calls *c, pg__str *to, const reference *r)
{
    pg_status st = PG_OK;
    pg_err *err = c->t->err;
    const char *text = c->t->text;
    PG_TRY(pg__str_puts(to, "[", err));
    PG_TRY(pg__str_add(to, text + r->layer.off, r->layer.n, err));
    PG_TRY(pg__str_printf(to, err, ", %ld, ", counted(c, r, 0)));
    PG_TRY(pg__str_add(to, text + r->tensor.off, r->tensor.n, err));
done:
    return st;
}

/* ---- Keras 2 to 3 ---- */

/* Keras computes shapes anew; only the name of a tensor matters here. */
static pg_status put_tensor_3(calls *c, const reference *r)
{
    pg_status st = PG_OK;
    pg_err *err = c->t->err;
    PG_TRY(pg__str_puts(&c->out,
                        "{\"class_name\": \"__keras_tensor__\", \"config\": {\"shape\": [null], "
                        "\"dtype\": \"float32\", \"keras_history\": ",
                        err));
    PG_TRY(put_reference(c, &c->out, r));
    PG_TRY(pg__str_puts(&c->out, "]}}", err));
done:
    return st;
}

/* A value of kwargs: tensors and lists of them become objects, the rest stays. */
static pg_status put_value_3(calls *c, pg__json_span value)
{
    pg_status st = PG_OK;
    const char *text = c->t->text;
    pg_err *err = c->t->err;
    reference r;
    size_t n = 0;
    if (read_reference(&r, text, value)) {
        c->ok &= !pg__json_is_text(text, r.layer, "_CONSTANT_VALUE");
        return put_tensor_3(c, &r);
    }
    pg__json_walk w = pg__json_walk_of(text, value);
    if (text[value.off] != '[' || !pg__json_walk_next(&w) || !read_reference(&r, text, w.value))
        return pg__str_add(&c->out, text + value.off, value.n, err);
    do {
        c->ok &= read_reference(&r, text, w.value);
        PG_TRY(pg__str_puts(&c->out, n++ ? ", " : "[", err));
        PG_TRY(put_tensor_3(c, &r));
    } while (c->ok && pg__json_walk_next(&w));
    PG_TRY(pg__str_puts(&c->out, "]", err));
done:
    return st;
}

static pg_status put_kwargs_3(calls *c, pg__json_span kwargs, size_t *n)
{
    pg_status st = PG_OK;
    pg_err *err = c->t->err;
    const char *text = c->t->text;
    for (pg__json_walk w = pg__json_walk_of(text, kwargs); kwargs.n && pg__json_walk_next(&w);) {
        PG_TRY(pg__str_puts(&c->out, (*n)++ ? ", " : "", err));
        PG_TRY(pg__str_add(&c->out, text + w.key.off, w.key.n, err));
        PG_TRY(pg__str_puts(&c->out, ": ", err));
        PG_TRY(put_value_3(c, w.value));
    }
done:
    return st;
}

/* A call of Keras 2: references, the first of which has the arguments. */
static pg_status put_call_3(calls *c, pg__json_span call)
{
    pg_status st = PG_OK;
    pg_err *err = c->t->err;
    const char *text = c->t->text;
    const int states = PG_IS_ANY(c->class_name, recurrent);
    pg__json_span kwargs = {0};
    reference r;
    size_t n = 0, n_kwargs = 0, n_all = 0;
    for (pg__json_walk w = pg__json_walk_of(text, call); pg__json_walk_next(&w);)
        n_all++;
    const int list = n_all > 1 && !states;
    PG_TRY(pg__str_puts(&c->out, list ? "{\"args\": [[" : "{\"args\": [", err));
    for (pg__json_walk w = pg__json_walk_of(text, call); pg__json_walk_next(&w); n++) {
        c->ok &= read_reference(&r, text, w.value) && text[call.off] == '[';
        if (!c->ok)
            goto done;
        if (states && n == 1)
            PG_TRY(pg__str_puts(&c->out, "], \"kwargs\": {\"initial_state\": [", err));
        else if (n)
            PG_TRY(pg__str_puts(&c->out, ", ", err));
        PG_TRY(put_tensor_3(c, &r));
        if (n == 0)
            kwargs = r.rest;
    }
    n_kwargs = states && n > 1;
    PG_TRY(pg__str_puts(&c->out,
                        list       ? "]], \"kwargs\": {"
                        : n_kwargs ? "]"
                                   : "], \"kwargs\": {",
                        err));
    PG_TRY(put_kwargs_3(c, kwargs, &n_kwargs));
    PG_TRY(pg__str_puts(&c->out, "}}", err));
done:
    return st;
}

/* ---- Keras 3 to 2 ---- */

/* The reference in a tensor object; returns 0 if it is not one. */
static int read_tensor(reference *r, const char *text, pg__json_span s)
{
    return s.n && text[s.off] == '{' &&
           pg__json_is_text(text, pg__json_member(text, s, "class_name"), "__keras_tensor__") &&
           read_reference(
               r, text, pg__json_member(text, pg__json_member(text, s, "config"), "keras_history"));
}

/* A tensor with its arguments. */
static pg_status put_tensor_2(calls *c, pg__json_span tensor, const char *kwargs, size_t *n)
{
    pg_status st = PG_OK;
    reference r;
    c->ok &= read_tensor(&r, c->t->text, tensor);
    if (!c->ok)
        return PG_OK;
    PG_TRY(pg__str_puts(&c->out, (*n)++ ? ", " : "", c->t->err));
    PG_TRY(put_reference(c, &c->out, &r));
    PG_TRY(pg__str_printf(&c->out, c->t->err, ", %s]", kwargs));
done:
    return st;
}

/* A tensor, or those of a list. */
static pg_status put_tensors_2(calls *c, pg__json_span s, const char *kwargs, size_t *n)
{
    pg_status st = PG_OK;
    if (c->t->text[s.off] != '[')
        return put_tensor_2(c, s, kwargs, n);
    for (pg__json_walk w = pg__json_walk_of(c->t->text, s); c->ok && pg__json_walk_next(&w);)
        PG_TRY(put_tensor_2(c, w.value, kwargs, n));
done:
    return st;
}

static pg_status put_key(pg__str *to, const char *text, pg__json_span key, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_puts(to, to->n > 1 ? ", " : "", err));
    PG_TRY(pg__str_add(to, text + key.off, key.n, err));
    PG_TRY(pg__str_puts(to, ": ", err));
done:
    return st;
}

/* null, or a list of nulls: masks that were not given. */
static int says_nothing(const char *text, pg__json_span s)
{
    if (text[s.off] != '[')
        return pg__json_is_null(text, s);
    for (pg__json_walk w = pg__json_walk_of(text, s); pg__json_walk_next(&w);)
        if (!pg__json_is_null(text, w.value))
            return 0;
    return 1;
}

/* Keras 3 also writes arguments that the call did not have. In Keras 2 they would then apply during
 * training (false), or prediction (true). */
static int is_default_training(const calls *c, pg__json_walk w)
{
    const int yes = w.value.n == 4;
    if (!pg__json_key_is(c->t->text, w.key, "training"))
        return 0;
    return yes ? strncmp(c->class_name, "Random", 6) == 0
               : strcmp(c->class_name, "BatchNormalization") != 0;
}

/* Arguments by name, as text: "{...}". The caller handles a recurrent layer's states. */
static pg_status kwargs_2(calls *c, pg__str *to, pg__json_span kwargs, pg__json_span *states)
{
    pg_status st = PG_OK;
    pg_err *err = c->t->err;
    const char *text = c->t->text;
    reference r;
    PG_TRY(pg__str_puts(to, "{", err));
    for (pg__json_walk w = pg__json_walk_of(text, kwargs); kwargs.n && pg__json_walk_next(&w);) {
        const int tensor = read_tensor(&r, text, w.value);
        if (says_nothing(text, w.value) || is_default_training(c, w))
            continue;
        if (pg__json_key_is(text, w.key, "initial_state") && text[w.value.off] == '[') {
            *states = w.value;
            continue;
        }
        c->ok &= tensor || !strchr("{[", text[w.value.off]);
        PG_TRY(put_key(to, text, w.key, err));
        if (!tensor) {
            PG_TRY(pg__str_add(to, text + w.value.off, w.value.n, err));
            continue;
        }
        PG_TRY(put_reference(c, to, &r));
        PG_TRY(pg__str_puts(to, "]", err));
    }
done:
    return st;
}

/* The second and third tensor of attention, by name. */
static pg_status put_attention_2(calls *c, pg__str *kwargs, const reference *r, size_t i)
{
    static const char *const names[] = {"value", "key"};
    pg_status st = PG_OK;
    pg_err *err = c->t->err;
    PG_TRY(pg__str_printf(kwargs, err, "%s\"%s\": ", kwargs->n > 1 ? ", " : "", names[i - 1]));
    PG_TRY(put_reference(c, kwargs, r));
    PG_TRY(pg__str_puts(kwargs, "]", err));
done:
    return st;
}

static pg_status put_call_2(calls *c, pg__json_span call)
{
    pg_status st = PG_OK;
    pg_err *err = c->t->err;
    const char *text = c->t->text;
    const int attention = strcmp(c->class_name, "MultiHeadAttention") == 0;
    const pg__json_span args = pg__json_member(text, call, "args");
    pg__json_span first = {0}, states = {0};
    pg__str kwargs = {0};
    reference r;
    size_t n = 0, n_out = 0;
    PG_TRY(kwargs_2(c, &kwargs, pg__json_member(text, call, "kwargs"), &states));
    c->ok &= args.n && text[args.off] == '[';
    for (pg__json_walk w = pg__json_walk_of(text, args); c->ok && pg__json_walk_next(&w); n++) {
        if (n == 0)
            first = w.value;
        else if (attention && n < 3 && read_tensor(&r, text, w.value))
            PG_TRY(put_attention_2(c, &kwargs, &r, n));
        else
            c->ok = 0;
    }
    PG_TRY(pg__str_puts(&kwargs, "}", err));
    c->ok &= first.n > 0;
    if (!c->ok)
        goto done;
    PG_TRY(pg__str_puts(&c->out, "[", err));
    PG_TRY(put_tensors_2(c, first, kwargs.s, &n_out));
    if (states.n)
        PG_TRY(put_tensors_2(c, states, "{}", &n_out));
    PG_TRY(pg__str_puts(&c->out, "]", err));
done:
    pg__str_fini(&kwargs);
    return st;
}

/* ---- a model ---- */

/* Leaves alone calls that are in the other Keras' form already. */
static pg_status translate_nodes(calls *c, pg__json_span nodes, const char *name)
{
    pg_status st = PG_OK;
    const char *text = c->t->text;
    size_t n = 0;
    c->out.n = 0;
    c->ok = 1;
    PG_TRY(pg__str_puts(&c->out, "[", c->t->err));
    for (pg__json_walk w = pg__json_walk_of(text, nodes); c->ok && pg__json_walk_next(&w); n++) {
        if ((text[w.value.off] == '{') != (c->t->to == 2))
            return PG_OK;
        PG_TRY(pg__str_puts(&c->out, n ? ", " : "", c->t->err));
        PG_TRY(c->t->to == 2 ? put_call_2(c, w.value) : put_call_3(c, w.value));
    }
    PG_TRY(pg__str_puts(&c->out, "]", c->t->err));
    if (!c->ok)
        PG_TRY(pg__edit_lack(c->t, name, "a call with arguments that are written differently"));
    else if (n)
        PG_TRY(pg__edit_add(c->t, nodes.off, nodes.n, c->out.s, c->out.n));
done:
    return st;
}

/* Records for each inner model whether some call of it has number 0. */
static void note_zeros(calls *c, pg__json_span s, size_t depth)
{
    reference r;
    if (read_reference(&r, c->t->text, s)) {
        inner *model = find(c, r.layer);
        if (model && number(c->t->text, r.call) == 0)
            model->from_0 = 1;
    }
    if (depth > 6 || s.n < 2 || !strchr("[{", c->t->text[s.off])) /* references are no deeper */
        return;
    for (pg__json_walk w = pg__json_walk_of(c->t->text, s); pg__json_walk_next(&w);)
        note_zeros(c, w.value, depth + 1);
}

static pg__json_span name_of(const char *text, pg__json_span entry)
{
    const pg__json_span name = pg__json_member(text, entry, "name");
    return name.n ? name : pg__json_member(text, pg__json_member(text, entry, "config"), "name");
}

static pg_status find_inner(calls *c, pg__json_span layers)
{
    pg_status st = PG_OK;
    pg__str name = {0};
    pg_err *err = c->t->err;
    const char *text = c->t->text;
    for (pg__json_walk w = pg__json_walk_of(text, layers); pg__json_walk_next(&w);) {
        const pg__json_span class_name = pg__json_member(text, w.value, "class_name");
        const pg__json_span at = name_of(text, w.value);
        const int sequential = pg__json_is_text(text, class_name, "Sequential");
        if ((!sequential && !pg__json_is_text(text, class_name, "Functional") &&
             !pg__json_is_text(text, class_name, "Model")) ||
            at.n < 2 || text[at.off] != '"')
            continue;
        name.n = 0;
        PG_TRY(pg__json_unquote(&name, text, at, err));
        if (pg__mem_grow(&c->v, &c->cap, c->n + 1, sizeof *c->v) ||
            !(c->v[c->n].name = pg__mem_strdup(name.s))) {
            st = pg__nomem(err);
            goto done;
        }
        c->v[c->n].from_0 = 0;
        c->v[c->n++].sequential = sequential;
    }
    if (c->t->to == 3 && c->n)
        for (pg__json_walk w = pg__json_walk_of(text, layers); pg__json_walk_next(&w);)
            note_zeros(c, pg__json_member(text, w.value, "inbound_nodes"), 0);
done:
    pg__str_fini(&name);
    return st;
}

/* [["x", 0, 0], ...], or a single ["x", 0, 0] as Keras 3.15 writes it. */
static pg_status translate_ends(calls *c, pg__json_span ends)
{
    pg_status st = PG_OK;
    const char *text = c->t->text;
    char word[32];
    reference r;
    const int flat = read_reference(&r, text, ends);
    if (flat && c->t->to == 2)
        PG_TRY(pg__edit_add(c->t, ends.off, 0, "[", 1));
    for (pg__json_walk w = pg__json_walk_of(text, ends); flat || pg__json_walk_next(&w);) {
        if (flat || read_reference(&r, text, w.value)) {
            const long k = counted(c, &r, 1);
            const int n = snprintf(word, sizeof word, "%ld", k);
            if (k != number(text, r.call))
                PG_TRY(pg__edit_add(c->t, r.call.off, r.call.n, word, (size_t)n));
        }
        if (flat)
            break;
    }
    if (flat && c->t->to == 2)
        PG_TRY(pg__edit_add(c->t, ends.off + ends.n, 0, "]", 1));
done:
    return st;
}

pg_status pg__translate_calls(pg__translating *t, pg__json_span config)
{
    pg_status st = PG_OK;
    pg__str name = {0}, class_name = {0};
    calls c = {.t = t};
    const char *text = t->text;
    const pg__json_span layers = pg__json_member(text, config, "layers");
    if (layers.n == 0 || text[layers.off] != '[')
        return PG_OK;
    PG_TRY(find_inner(&c, layers));
    for (pg__json_walk w = pg__json_walk_of(text, layers); pg__json_walk_next(&w);) {
        const pg__json_span nodes = pg__json_member(text, w.value, "inbound_nodes");
        const pg__json_span at = name_of(text, w.value),
                            class_at = pg__json_member(text, w.value, "class_name");
        if (nodes.n < 3 || text[nodes.off] != '[' || !class_at.n || text[class_at.off] != '"')
            continue;
        name.n = class_name.n = 0;
        PG_TRY(pg__json_unquote(&class_name, text, class_at, t->err));
        if (at.n && text[at.off] == '"')
            PG_TRY(pg__json_unquote(&name, text, at, t->err));
        else
            PG_TRY(pg__str_puts(&name, class_name.s, t->err));
        c.class_name = class_name.s;
        PG_TRY(translate_nodes(&c, nodes, name.s));
    }
    PG_TRY(translate_ends(&c, pg__json_member(text, config, "input_layers")));
    PG_TRY(translate_ends(&c, pg__json_member(text, config, "output_layers")));
done:
    for (size_t i = 0; i < c.n; i++)
        pg__mem_free(c.v[i].name);
    pg__mem_free(c.v);
    pg__str_fini(&c.out);
    pg__str_fini(&name);
    pg__str_fini(&class_name);
    return st;
}
