/* pytorch_numpy.c - NumPy's arrays in a pickle (numpy/_core/src/multiarray/methods.c, __reduce__):
 * _reconstruct(ndarray, (0,), b"b"), then a state of (version, shape, dtype, Fortran order, bytes);
 * from protocol 5 on _frombuffer(bytes, dtype, shape, order). A dtype is a call with "f4", and the
 * second member of its state is the byte order. Protocol 2 has no bytes: it stores them as a text
 * in Latin-1. */
#include <string.h>

#include "base/le.h"
#include "base/try.h"
#include "format/pytorch_impl.h"

static const pg__pk_value *item(const pg__pickle *p, const pg__pk_value *v, uint32_t i)
{
    return &p->v[v->u.items[i]];
}

static int text_is(const pg__pk_value *v, const char *text)
{
    return (v->kind == PG_PK_STR || v->kind == PG_PK_BYTES) && v->n == strlen(text) &&
           memcmp(v->u.text, text, v->n) == 0;
}

/* The type of a dtype, if it is a number type that libpg has. */
static int type_of(pg_dtype *out, int *big, const pg__pickle *p, const pg__pk_value *v)
{
    static const struct {
        const char *name;
        pg_dtype dtype;
    } types[] = {{"f2", PG_F16}, {"f4", PG_F32}, {"f8", PG_F64}, {"i1", PG_I8},
                 {"i2", PG_I16}, {"i4", PG_I32}, {"i8", PG_I64}, {"u1", PG_U8},
                 {"u2", PG_U16}, {"u4", PG_U32}, {"u8", PG_U64}, {"b1", PG_BOOL}};
    if (v->kind != PG_PK_CALL || pg__pt_use(p, v) != PG_PT_NDTYPE || v->n < 3)
        return 0;
    const pg__pk_value *args = item(p, v, 1), *state = item(p, v, v->n - 1);
    if (args->kind != PG_PK_TUPLE || args->n < 1 || state->kind != PG_PK_TUPLE || state->n < 2)
        return 0;
    *big = text_is(item(p, state, 1), ">");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (text_is(item(p, args, 0), types[i].name)) {
            *out = types[i].dtype;
            return 1;
        }
    return 0;
}

/* Texts, dates and objects are settings and logs; anything else of NumPy could belong to a
 * model. */
static int is_text_type(const pg__pickle *p, const pg__pk_value *v)
{
    if (v->kind != PG_PK_CALL || pg__pt_use(p, v) != PG_PT_NDTYPE || v->n < 2)
        return 0;
    const pg__pk_value *args = item(p, v, 1);
    const pg__pk_value *name = args->n ? item(p, args, 0) : args;
    return (name->kind == PG_PK_STR || name->kind == PG_PK_BYTES) && name->n &&
           strchr("USOMmT", name->u.text[0]) != NULL;
}

/* The description of an array. */
typedef struct array {
    pg_dtype dtype;
    int big, fortran;
    const pg__pk_value *shape, *data, *type; /* type: NULL if v is not an array */
} array;

/* Returns 0 if v is not an array, or if libpg lacks the type of its elements. */
static int describe(array *a, const pg__pickle *p, const pg__pk_value *v)
{
    const int use = v->kind == PG_PK_CALL ? pg__pt_use(p, v) : 0;
    *a = (array){0};
    if (use == PG_PT_NDARRAY && v->n >= 3) { /* (version, shape, dtype, Fortran order, bytes) */
        const pg__pk_value *s = item(p, v, v->n - 1);
        if (s->kind != PG_PK_TUPLE || s->n != 5)
            return 0;
        a->shape = item(p, s, 1);
        a->type = item(p, s, 2);
        a->fortran = item(p, s, 3)->kind == PG_PK_BOOL && item(p, s, 3)->u.i;
        a->data = item(p, s, 4);
    } else if (use == PG_PT_NDBUFFER) { /* (bytes, dtype, shape, order) */
        const pg__pk_value *s = item(p, v, 1);
        if (s->n != 4)
            return 0;
        a->data = item(p, s, 0);
        a->type = item(p, s, 1);
        a->shape = item(p, s, 2);
        a->fortran = text_is(item(p, s, 3), "F");
    }
    return a->type && a->shape->kind == PG_PK_TUPLE && type_of(&a->dtype, &a->big, p, a->type);
}

int pg__pt_is_array(const pg__pickle *p, const pg__pk_value *v)
{
    array a;
    return describe(&a, p, v) || (a.type && !is_text_type(p, a.type));
}

/* Reports why describe() returned 0. */
static pg_status fail_description(const array *a, const pg__pickle *p, pg_err *err)
{
    char shown[40];
    pg_dtype dtype;
    int big;
    const pg__pk_value *t = a->type;
    if (!t || t->kind != PG_PK_CALL || pg__pt_use(p, t) != PG_PT_NDTYPE || t->n < 2 ||
        type_of(&dtype, &big, p, t))
        return pg_fail(err, PG_E_FORMAT, "its description is damaged");
    const pg__pk_value *args = item(p, t, 1);
    const pg__pk_value *name = args->n ? item(p, args, 0) : args;
    if (name->kind != PG_PK_STR && name->kind != PG_PK_BYTES)
        return pg_fail(err, PG_E_FORMAT, "its description is damaged");
    return pg_fail(err, PG_E_UNSUPPORTED, "NumPy's type %s is not supported",
                   pg__printable(shown, sizeof shown, name->u.text, name->n));
}

/* The bytes of an array: as they are, or encoded. */
static pg_status find_bytes(pg__pt_storage *s, const pg__pickle *p, const pg__pk_value *v,
                            pg_err *err)
{
    s->inside = 1;
    s->latin1 = v->kind == PG_PK_CALL && pg__pt_use(p, v) == PG_PT_ENCODE;
    if (s->latin1) {
        const pg__pk_value *args = item(p, v, 1);
        if (args->n != 2 || !text_is(item(p, args, 1), "latin1"))
            return pg_fail(err, PG_E_FORMAT, "the encoding of its data is unknown");
        v = item(p, args, 0);
    }
    if (v->kind == PG_PK_CALL && pg__pt_use(p, v) == PG_PT_BYTES) /* bytes() */
        return PG_OK;
    if (v->kind != PG_PK_STR && v->kind != PG_PK_BYTES)
        return pg_fail(err, PG_E_FORMAT, "its data is missing");
    s->key = v->u.text;
    s->n_key = v->n;
    return PG_OK;
}

/* Row-major, or with the first dimension contiguous. */
static pg_status set_shape(pg__strided *view, const pg__pickle *p, const pg__pk_value *shape,
                           int fortran, pg_err *err)
{
    uint64_t n = 1;
    if (shape->n > PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%u dimensions, at most %u are supported", shape->n,
                       PG_MAX_RANK);
    view->rank = shape->n;
    for (uint32_t i = 0; i < shape->n; i++) {
        const uint32_t d = fortran ? i : shape->n - 1 - i;
        const pg__pk_value *x = item(p, shape, d);
        if (x->kind != PG_PK_INT || x->u.i < 0)
            return pg_fail(err, PG_E_FORMAT, "its shape or strides are not sizes");
        view->dims[d] = (uint64_t)x->u.i;
        view->strides[d] = n;
        if (__builtin_mul_overflow(n, view->dims[d], &n))
            return pg_fail(err, PG_E_LIMIT, "its shape is too large");
    }
    view->n_source = n;
    return PG_OK;
}

pg_status pg__pt_read_array(pg__pt_tensor *t, const pg__pickle *p, const pg__pk_value *v,
                            pg_err *err)
{
    pg_status st = PG_OK;
    array a;
    if (!describe(&a, p, v))
        return fail_description(&a, p, err);
    t->dtype = a.dtype;
    t->big_endian = a.big;
    t->view = (pg__strided){.size = pg_dtype_bytes(t->dtype)};
    PG_TRY(find_bytes(&t->storage, p, a.data, err));
    PG_TRY(set_shape(&t->view, p, a.shape, a.fortran, err));
    t->storage.size = t->view.size;
    t->storage.n = t->view.n_source;
    if (t->storage.n > t->storage.n_key / t->storage.size)
        PG_FAIL(PG_E_FORMAT, "its data is shorter than its shape says");
    PG_TRY(pg__strided_check(&t->view, err));
done:
    return st;
}

int pg__pt_scalar(double *out, const pg__pickle *p, const pg__pk_value *v)
{
    pg_dtype dtype;
    int big;
    pg__pt_storage s = {0};
    unsigned char bytes[8];
    if (v->kind != PG_PK_CALL || pg__pt_use(p, v) != PG_PT_NDSCALAR)
        return 0;
    const pg__pk_value *args = item(p, v, 1);
    if (args->n != 2 || !type_of(&dtype, &big, p, item(p, args, 0)) || big ||
        find_bytes(&s, p, item(p, args, 1), NULL) != PG_OK)
        return 0;
    s.n = 1;
    s.size = pg_dtype_bytes(dtype);
    return pg__pt_copy_inside(bytes, &s, NULL) == PG_OK && pg__pt_number(out, dtype, bytes);
}

int pg__pt_number(double *out, pg_dtype dtype, const unsigned char *bytes)
{
    float f;
    const uint64_t n = pg__le(bytes, pg_dtype_bytes(dtype));
    switch (dtype) {
    case PG_F32:
        memcpy(&f, bytes, sizeof f);
        *out = (double)f;
        return 1;
    case PG_F64: memcpy(out, bytes, sizeof *out); return 1;
    case PG_I8: *out = (int8_t)n; return 1;
    case PG_I16: *out = (int16_t)n; return 1;
    case PG_I32: *out = (int32_t)n; return 1;
    case PG_I64: *out = (double)(int64_t)n; return 1;
    case PG_U8:
    case PG_U16:
    case PG_U32:
    case PG_U64:
    case PG_BOOL: *out = (double)n; return 1;
    case PG_F16:
    case PG_BF16:
    case PG_F8_E4M3:
    case PG_F8_E5M2: break;
    }
    return 0;
}

pg_status pg__pt_copy_inside(unsigned char *out, const pg__pt_storage *s, pg_err *err)
{
    const unsigned char *from = (const unsigned char *)s->key;
    uint64_t n = s->n * s->size;
    uint32_t at = 0;
    while (n && at < s->n_key) {
        const unsigned c = from[at++];
        if (!s->latin1 || c < 0x80) {
            *out++ = (unsigned char)c;
        } else if ((c & 0xFE) == 0xC2 && at < s->n_key && (from[at] & 0xC0) == 0x80) {
            *out++ = (unsigned char)((c & 3) << 6 | (from[at++] & 0x3Fu));
        } else {
            break;
        }
        n--;
    }
    return n || at != s->n_key
               ? pg_fail(err, PG_E_FORMAT, "its data is not as long as its shape says")
               : PG_OK;
}
