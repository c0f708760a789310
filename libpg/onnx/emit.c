/* emit.c - what the operations make nodes with: operands in an order of axes, nodes, attributes,
 * constants. See onnx.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/onnx.h"
#include "onnx/onnx.h"

/* ---- failure ---- */

void pg__onnx_check(pg__onnx *x, pg_status st)
{
    if (x->st == PG_OK)
        x->st = st;
}

const char *pg__onnx_layer(const pg__onnx *x)
{
    return x->at && x->at->origin < x->leaves->n ? x->leaves->v[x->at->origin].layer->name
                                                 : "model";
}

void pg__onnx_refuse(pg__onnx *x, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    if (x->st != PG_OK)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    x->st = pg_fail(x->err, PG_E_UNSUPPORTED, "%s: %s", PG_SHOW(pg__onnx_layer(x)), text);
}

/* ---- attributes ---- */

typedef struct value {
    uint32_t field;
    int64_t type;
} value;

static void add_attr(pg__onnx *x, pg__str *attrs, const char *name, const pg__str *values,
                     int64_t type)
{
    pg__str a = {0};
    if (x->st != PG_OK)
        return;
    pg__onnx_check(x, pg__proto_put_text(&a, PG_ONNX_ATTR_NAME, name, x->err));
    if (values->n)
        pg__onnx_check(x, pg__str_add(&a, values->s, values->n, x->err));
    pg__onnx_check(x, pg__proto_put_int(&a, PG_ONNX_ATTR_TYPE, type, x->err));
    if (x->st == PG_OK)
        pg__onnx_check(x, pg__proto_put_bytes(attrs, PG_ONNX_NODE_ATTR, a.s, a.n, x->err));
    pg__str_fini(&a);
}

void pg__onnx_int(pg__onnx *x, pg__str *attrs, const char *name, int64_t v)
{
    pg__str s = {0};
    pg__onnx_check(x, pg__proto_put_int(&s, PG_ONNX_ATTR_I, v, x->err));
    add_attr(x, attrs, name, &s, PG_ONNX_INT);
    pg__str_fini(&s);
}

void pg__onnx_ints(pg__onnx *x, pg__str *attrs, const char *name, const int64_t *v, size_t n)
{
    pg__str s = {0};
    for (size_t k = 0; k < n; k++)
        pg__onnx_check(x, pg__proto_put_int(&s, PG_ONNX_ATTR_INTS, v[k], x->err));
    add_attr(x, attrs, name, &s, PG_ONNX_INTS);
    pg__str_fini(&s);
}

void pg__onnx_float(pg__onnx *x, pg__str *attrs, const char *name, double v)
{
    pg__str s = {0};
    pg__onnx_check(x, pg__proto_put_float(&s, PG_ONNX_ATTR_F, (float)v, x->err));
    add_attr(x, attrs, name, &s, PG_ONNX_FLOAT);
    pg__str_fini(&s);
}

void pg__onnx_floats(pg__onnx *x, pg__str *attrs, const char *name, const double *v, size_t n)
{
    pg__str s = {0};
    for (size_t k = 0; k < n; k++)
        pg__onnx_check(x, pg__proto_put_float(&s, PG_ONNX_ATTR_FLOATS, (float)v[k], x->err));
    add_attr(x, attrs, name, &s, PG_ONNX_FLOATS);
    pg__str_fini(&s);
}

void pg__onnx_text(pg__onnx *x, pg__str *attrs, const char *name, const char *v)
{
    pg__str s = {0};
    pg__onnx_check(x, pg__proto_put_text(&s, PG_ONNX_ATTR_S, v, x->err));
    add_attr(x, attrs, name, &s, PG_ONNX_STRING);
    pg__str_fini(&s);
}

void pg__onnx_texts(pg__onnx *x, pg__str *attrs, const char *name, const char *const *v, size_t n)
{
    pg__str s = {0};
    for (size_t k = 0; k < n; k++)
        pg__onnx_check(x, pg__proto_put_text(&s, PG_ONNX_ATTR_STRINGS, v[k], x->err));
    add_attr(x, attrs, name, &s, PG_ONNX_STRINGS);
    pg__str_fini(&s);
}

/* ---- nodes ---- */

void pg__onnx_ops(pg__onnx *x, const char *op, pg__str *attrs, const pg__onnx_name *in, size_t n_in,
                  pg__onnx_name *out, size_t n_out)
{
    pg__str like = {0};
    for (size_t k = 0; k < n_out && x->st == PG_OK; k++) {
        if (out[k] == PG_ONNX_ABSENT)
            continue;
        like.n = 0;
        pg__onnx_check(x, pg__str_printf(&like, x->err, "%s/%s", pg__onnx_layer(x), op));
        if (x->st == PG_OK)
            pg__onnx_check(x, pg__onnx_new_name(&x->g, like.s, &out[k], x->err));
    }
    if (x->st == PG_OK)
        pg__onnx_check(x, pg__onnx_add_node(&x->g, op, attrs, in, n_in, out, n_out, x->err));
    pg__str_fini(&like);
    if (attrs)
        pg__str_fini(attrs);
}

pg__onnx_name pg__onnx_op(pg__onnx *x, const char *op, pg__str *attrs, const pg__onnx_name *in,
                          size_t n_in)
{
    pg__onnx_name out = 0;
    pg__onnx_ops(x, op, attrs, in, n_in, &out, 1);
    return out;
}

pg__onnx_name pg__onnx_op1(pg__onnx *x, const char *op, pg__onnx_name a)
{
    return pg__onnx_op(x, op, NULL, &a, 1);
}

pg__onnx_name pg__onnx_op2(pg__onnx *x, const char *op, pg__onnx_name a, pg__onnx_name b)
{
    const pg__onnx_name in[] = {a, b};
    return pg__onnx_op(x, op, NULL, in, 2);
}

pg__onnx_name pg__onnx_op3(pg__onnx *x, const char *op, pg__onnx_name a, pg__onnx_name b,
                           pg__onnx_name c)
{
    const pg__onnx_name in[] = {a, b, c};
    return pg__onnx_op(x, op, NULL, in, 3);
}

void pg__onnx_body_begin(pg__onnx *x, pg__onnx_name *in, size_t n_in)
{
    pg__str like = {0};
    x->body = x->g.n_nodes;
    for (size_t k = 0; k < n_in && x->st == PG_OK; k++) {
        like.n = 0;
        pg__onnx_check(x, pg__str_printf(&like, x->err, "%s/step", pg__onnx_layer(x)));
        if (x->st == PG_OK)
            pg__onnx_check(x, pg__onnx_new_name(&x->g, like.s, &in[k], x->err));
    }
    pg__str_fini(&like);
}

void pg__onnx_body_end(pg__onnx *x, const pg__onnx_name *in, size_t n_in, const pg__onnx_name *out,
                       size_t n_out)
{
    if (x->st == PG_OK)
        pg__onnx_check(x, pg__onnx_add_body(&x->g, x->body, in, n_in, out, n_out, x->err));
}

pg__onnx_name pg__onnx_transpose(pg__onnx *x, pg__onnx_name a, const uint32_t *perm, uint32_t rank)
{
    pg__str attrs = {0};
    int64_t p[PG_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        p[i] = perm[i];
    pg__onnx_ints(x, &attrs, "perm", p, rank);
    return pg__onnx_op(x, "Transpose", &attrs, &a, 1);
}

pg__onnx_name pg__onnx_cast(pg__onnx *x, pg__onnx_name a, pg_dtype to)
{
    pg__str attrs = {0};
    pg__onnx_int(x, &attrs, "to", pg__onnx_type_of(to));
    return pg__onnx_op(x, "Cast", &attrs, &a, 1);
}

pg__onnx_name pg__onnx_concat(pg__onnx *x, const pg__onnx_name *in, size_t n, int64_t axis)
{
    pg__str attrs = {0};
    pg__onnx_int(x, &attrs, "axis", axis);
    return pg__onnx_op(x, "Concat", &attrs, in, n);
}

pg__onnx_name pg__onnx_reduce(pg__onnx *x, const char *op, pg__onnx_name a, const int64_t *axes,
                              size_t n, int keep)
{
    const int by_operand = x->opset >= (strcmp(op, "ReduceSum") == 0 ? 13 : 18);
    pg__str attrs = {0};
    if (!by_operand)
        pg__onnx_ints(x, &attrs, "axes", axes, n);
    if (!keep)
        pg__onnx_int(x, &attrs, "keepdims", 0);
    const pg__onnx_name in[] = {a, by_operand ? pg__onnx_numbers(x, axes, n) : PG_ONNX_ABSENT};
    return pg__onnx_op(x, op, &attrs, in, 2);
}

pg__onnx_name pg__onnx_unsqueeze(pg__onnx *x, pg__onnx_name a, int64_t axis)
{
    return pg__onnx_op2(x, "Unsqueeze", a, pg__onnx_numbers(x, &axis, 1));
}

pg__onnx_name pg__onnx_squeeze(pg__onnx *x, pg__onnx_name a, int64_t axis)
{
    return pg__onnx_op2(x, "Squeeze", a, pg__onnx_numbers(x, &axis, 1));
}

pg__onnx_name pg__onnx_slice(pg__onnx *x, pg__onnx_name a, const int64_t *starts,
                             const int64_t *ends, const int64_t *axes, const int64_t *steps,
                             size_t n)
{
    const pg__onnx_name in[] = {a, pg__onnx_numbers(x, starts, n), pg__onnx_numbers(x, ends, n),
                                pg__onnx_numbers(x, axes, n),
                                steps ? pg__onnx_numbers(x, steps, n) : PG_ONNX_ABSENT};
    return pg__onnx_op(x, "Slice", NULL, in, 5);
}

/* ---- constants ---- */

#define SMALL 16 /* numbers; larger constants are not looked for */

static pg__onnx_name find_const(const pg__onnx *x, pg_dtype dtype, uint32_t rank,
                                const uint64_t *dims, const double *v, size_t n)
{
    for (size_t i = 0; n <= SMALL && i < x->g.n_inits; i++) {
        const pg__onnx_init *c = &x->g.inits[i];
        if (c->values && !c->is_optional && c->dtype == dtype && c->rank == rank &&
            memcmp(c->dims, dims, rank * sizeof *dims) == 0 &&
            memcmp(c->values, v, n * sizeof *v) == 0)
            return c->name;
    }
    return PG_ONNX_ABSENT;
}

pg__onnx_name pg__onnx_const(pg__onnx *x, const char *name, pg_dtype dtype, uint32_t rank,
                             const uint64_t *dims, const double *v)
{
    const pg__dims d = pg__dims_of(rank, dims);
    const size_t n = (size_t)pg__dims_elems(&d);
    pg__onnx_init init = {.dtype = dtype, .rank = rank};
    pg__str like = {0};
    if (x->st != PG_OK)
        return 0;
    const pg__onnx_name known = find_const(x, dtype, rank, dims, v, n);
    if (known != PG_ONNX_ABSENT)
        return known;
    memcpy(init.dims, dims, rank * sizeof *dims);
    init.values = pg__mem_array(n, sizeof *v);
    if (!init.values) {
        x->st = pg__nomem(x->err);
        return 0;
    }
    memcpy(init.values, v, n * sizeof *v);
    pg__onnx_check(x, pg__str_printf(&like, x->err, "%s/%s", pg__onnx_layer(x), name));
    if (x->st == PG_OK)
        pg__onnx_check(x, pg__onnx_new_name(&x->g, like.s, &init.name, x->err));
    pg__str_fini(&like);
    if (x->st == PG_OK)
        pg__onnx_check(x, pg__onnx_add_init(&x->g, &init, x->err));
    else
        pg__mem_free(init.values);
    return init.name;
}

/* The nearest number that float16 has beside 0 and infinity: a mask of -1e9 times 0 is 0, and an
 * epsilon keeps a sum from being 0. */
static double in_half(double v)
{
    const double size = fabs(v);
    if (size == 0 || !isfinite(v))
        return v;
    return copysign(size > 65504 ? 65504 : size < 0x1p-24 ? 0x1p-24 : size, v);
}

pg__onnx_name pg__onnx_number(pg__onnx *x, double v)
{
    if (x->real == PG_F16)
        v = in_half(v);
    return pg__onnx_const(x, "const", x->real, 0, (const uint64_t[]){0}, &v);
}

pg__onnx_name pg__onnx_numbers(pg__onnx *x, const int64_t *v, size_t n)
{
    double values[SMALL] = {0};
    if (x->st == PG_OK && n > SMALL)
        x->st = pg_fail(x->err, PG_E_LIMIT, "%zu numbers of an operation, at most %u", n, SMALL);
    if (x->st != PG_OK)
        return 0;
    for (size_t k = 0; k < n; k++)
        values[k] = (double)v[k];
    return pg__onnx_const(x, "ints", PG_I64, 1, (const uint64_t[]){n}, values);
}

/* ---- orders of axes ---- */

pg__onnx_perm pg__onnx_plain(void)
{
    pg__onnx_perm p;
    for (uint32_t i = 0; i < PG_MAX_RANK; i++)
        p.p[i] = i;
    return p;
}

pg__onnx_perm pg__onnx_first(uint32_t rank)
{
    pg__onnx_perm p = pg__onnx_plain();
    for (uint32_t i = 2; i < rank; i++)
        p.p[i] = i - 1;
    if (rank > 1)
        p.p[1] = rank - 1;
    return p;
}

int pg__onnx_is_plain(const pg__onnx_perm *p, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (p->p[i] != i)
            return 0;
    return 1;
}

uint32_t pg__onnx_axis(const pg__onnx_perm *p, uint32_t a)
{
    uint32_t i = 0;
    while (i < PG_MAX_RANK - 1 && p->p[i] != a)
        i++;
    return i;
}

pg__onnx_perm pg__onnx_native(const pg__onnx *x, pg__val v)
{
    pg__onnx_perm p = pg__onnx_plain();
    if (x->values[v].versions)
        memcpy(p.p, x->versions[x->values[v].versions - 1].perm, sizeof p.p);
    return p;
}

/* In which a value is made and taken now. */
static pg_dtype type_of(const pg__onnx *x, pg__val v)
{
    return x->tape->values[v].elem == PG_ELEM_INT ? PG_I32 : x->real;
}

static const pg__onnx_version *find_version(const pg__onnx *x, pg__val v, const uint32_t *perm)
{
    const uint32_t rank = pg__onnx_dims(x, v)->rank;
    for (uint32_t k = x->values[v].versions; k; k = x->versions[k - 1].next)
        if (x->versions[k - 1].dtype == type_of(x, v) &&
            memcmp(x->versions[k - 1].perm, perm, rank * sizeof *perm) == 0)
            return &x->versions[k - 1];
    return NULL;
}

/* The first version of a value is the one that it was made in; others come behind it. */
void pg__onnx_set(pg__onnx *x, pg__val v, const pg__onnx_perm *p, pg__onnx_name name)
{
    pg__onnx_version n = {.name = name, .dtype = type_of(x, v)};
    uint32_t *to = &x->values[v].versions;
    if (x->st != PG_OK)
        return;
    if (pg__mem_grow(&x->versions, &x->cap_versions, x->n_versions + 1, sizeof *x->versions)) {
        x->st = pg__nomem(x->err);
        return;
    }
    memcpy(n.perm, p->p, sizeof n.perm);
    while (*to)
        to = &x->versions[*to - 1].next;
    x->versions[x->n_versions++] = n;
    *to = (uint32_t)x->n_versions;
}

void pg__onnx_set_plain(pg__onnx *x, pg__val v, pg__onnx_name name)
{
    const pg__onnx_perm p = pg__onnx_plain();
    pg__onnx_set(x, v, &p, name);
}

pg__onnx_name pg__onnx_as(pg__onnx *x, pg__val v, const pg__onnx_perm *p)
{
    const uint32_t rank = pg__onnx_dims(x, v)->rank;
    uint32_t perm[PG_MAX_RANK];
    const pg__onnx_version *known = find_version(x, v, p->p);
    pg__onnx_name name;
    if (x->st != PG_OK)
        return 0;
    if (known)
        return known->name;
    if (x->values[v].is_static) {
        name = pg__onnx_static(x, v, rank, p);
    } else if (x->values[v].versions) {
        const pg__onnx_version from = x->versions[x->values[v].versions - 1];
        name = from.name;
        if (from.dtype != type_of(x, v))
            name = pg__onnx_cast(x, name, type_of(x, v));
        for (uint32_t i = 0; i < rank; i++)
            for (uint32_t k = 0; k < rank; k++)
                if (from.perm[k] == p->p[i])
                    perm[i] = k;
        if (memcmp(from.perm, p->p, rank * sizeof *perm) != 0)
            name = pg__onnx_transpose(x, name, perm, rank);
    } else {
        pg__onnx_refuse(x, "reads a value that was not made");
        return 0;
    }
    pg__onnx_set(x, v, p, name);
    return name;
}

pg__onnx_name pg__onnx_get(pg__onnx *x, pg__val v)
{
    const pg__onnx_perm p = pg__onnx_plain();
    return pg__onnx_as(x, v, &p);
}

pg__onnx_name pg__onnx_aligned(pg__onnx *x, pg__val v, uint32_t rank, const pg__onnx_perm *p)
{
    const uint32_t own = pg__onnx_dims(x, v)->rank;
    if (own == rank)
        return pg__onnx_as(x, v, p);
    if (own == 0 || pg__onnx_is_plain(p, rank))
        return pg__onnx_get(x, v);
    return pg__onnx_static(x, v, rank, p); /* pg__onnx_common() has seen to it */
}

pg__onnx_perm pg__onnx_common(const pg__onnx *x, const pg__inst *i, uint32_t rank)
{
    pg__onnx_perm p = pg__onnx_plain();
    int found = 0;
    for (uint32_t k = 0; k < i->n_in; k++) {
        const pg__val v = pg__onnx_in(x, i, k);
        if (v == PG_NO_VAL || x->values[v].is_static)
            continue;
        const uint32_t own = pg__onnx_dims(x, v)->rank;
        if (own != rank && own > 0)
            return pg__onnx_plain();
        if (own == rank && !found)
            p = pg__onnx_native(x, v), found = 1;
    }
    return p;
}
