/* pytorch_values.c - tensors in a PyTorch pickle: the functions of torch/_utils.py that rebuild
 * them, and the persistent ids of torch/serialization.py that stand for their storages. */
#include "format/pytorch_impl.h"

#include <string.h>

#include "base/try.h"

#define FOREIGN 0xFF /* a type that libpg has no name for */
#define PAIRS   0x80 /* complex numbers: two of this type */

#define STORAGE(name, dtype)                                     \
    {                                                            \
        "torch", name "Storage", 0, PG_PT_STORAGE | (dtype) << 8 \
    }
#define DTYPE(name, dtype)                           \
    {                                                \
        "torch", name, 0, PG_PT_DTYPE | (dtype) << 8 \
    }

const pg__pk_global pg__pt_globals[] = {
    {"collections", "OrderedDict", PG_PK_ENTRIES, PG_PT_OTHER},
    {"torch._utils", "_rebuild_tensor_v2", 0, PG_PT_TENSOR},
    {"torch._utils", "_rebuild_tensor", 0, PG_PT_TENSOR},
    {"torch._utils", "_rebuild_tensor_v3", 0, PG_PT_TENSOR_V3},
    {"torch._utils", "_rebuild_parameter", 0, PG_PT_PARAMETER},
    {"torch._utils", "_rebuild_parameter_with_state", 0, PG_PT_PARAMETER},
    {"torch._tensor", "_rebuild_from_type_v2", 0, PG_PT_FROM_TYPE},
    STORAGE("Half", PG_F16),
    STORAGE("BFloat16", PG_BF16),
    STORAGE("Float", PG_F32),
    STORAGE("Double", PG_F64),
    STORAGE("Char", PG_I8),
    STORAGE("Short", PG_I16),
    STORAGE("Int", PG_I32),
    STORAGE("Long", PG_I64),
    STORAGE("Byte", PG_U8),
    STORAGE("Bool", PG_BOOL),
    STORAGE("ComplexFloat", PAIRS | PG_F32),
    STORAGE("ComplexDouble", PAIRS | PG_F64),
    {"torch", "UntypedStorage", 0, PG_PT_UNTYPED},
    {"torch.storage", "UntypedStorage", 0, PG_PT_UNTYPED},
    DTYPE("float16", PG_F16),
    DTYPE("bfloat16", PG_BF16),
    DTYPE("float32", PG_F32),
    DTYPE("float64", PG_F64),
    DTYPE("int8", PG_I8),
    DTYPE("int16", PG_I16),
    DTYPE("int32", PG_I32),
    DTYPE("int64", PG_I64),
    DTYPE("uint8", PG_U8),
    DTYPE("uint16", PG_U16),
    DTYPE("uint32", PG_U32),
    DTYPE("uint64", PG_U64),
    DTYPE("bool", PG_BOOL),
    DTYPE("complex32", PAIRS | PG_F16),
    DTYPE("complex64", PAIRS | PG_F32),
    DTYPE("complex128", PAIRS | PG_F64),
    DTYPE("float8_e4m3fn", PG_F8_E4M3),
    DTYPE("float8_e4m3fnuz", FOREIGN),
    DTYPE("float8_e5m2", PG_F8_E5M2),
    DTYPE("float8_e5m2fnuz", FOREIGN),
    DTYPE("float8_e8m0fnu", FOREIGN),
    {"torch", "Tensor", 0, PG_PT_OTHER},
    {"torch.nn.parameter", "Parameter", 0, PG_PT_OTHER},
    {"torch.nn.parameter", "Buffer", 0, PG_PT_OTHER},
    {"torch", "Size", 0, PG_PT_OTHER},
    {"torch", "device", 0, PG_PT_OTHER},
    {"collections", "Counter", PG_PK_ENTRIES, PG_PT_OTHER},
    {"collections", "defaultdict", PG_PK_LATER_ENTRIES, PG_PT_OTHER},
    {"_codecs", "encode", 0, PG_PT_ENCODE},
    {"numpy", "ndarray", 0, PG_PT_OTHER},
    {"numpy", "dtype", PG_PK_ATTRIBUTES, PG_PT_NDTYPE},
    {"numpy.core.multiarray", "_reconstruct", PG_PK_ATTRIBUTES, PG_PT_NDARRAY},
    {"numpy._core.multiarray", "_reconstruct", PG_PK_ATTRIBUTES, PG_PT_NDARRAY},
    {"numpy.core.numeric", "_frombuffer", 0, PG_PT_NDBUFFER},
    {"numpy._core.numeric", "_frombuffer", 0, PG_PT_NDBUFFER},
    {"numpy.core.multiarray", "scalar", 0, PG_PT_NDSCALAR},
    {"numpy._core.multiarray", "scalar", 0, PG_PT_NDSCALAR},
    {"builtins", "bytes", 0, PG_PT_BYTES},
    {"__builtin__", "bytes", 0, PG_PT_BYTES},
    {"builtins", "set", 0, PG_PT_OTHER},
    {"__builtin__", "set", 0, PG_PT_OTHER},
    {"builtins", "bytearray", 0, PG_PT_OTHER},
    {"__builtin__", "bytearray", 0, PG_PT_OTHER},
    {0},
};

static const pg__pk_value *item(const pg__pickle *p, const pg__pk_value *v, uint32_t i)
{
    return &p->v[v->u.items[i]];
}

int pg__pt_use(const pg__pickle *p, const pg__pk_value *v)
{
    if (v->kind == PG_PK_CALL)
        v = item(p, v, 0);
    return v->kind == PG_PK_GLOBAL ? p->globals[v->u.i].use : 0;
}

/* One of torch's functions that rebuild tensors, but not one that libpg supports: sparse,
 * quantised, on the meta device, on an XLA device. */
static int is_rebuilt(const pg__pk_foreign *f)
{
    return f && pg__pt_is_of_torch(f) && f->n_name > 8 && memcmp(f->name, "_rebuild", 8) == 0;
}

int pg__pt_is_tensor(const pg__pickle *p, const pg__pk_value *v)
{
    const int use = pg__pt_use(p, v);
    return v->kind == PG_PK_CALL && (use == PG_PT_TENSOR || use == PG_PT_TENSOR_V3 ||
                                     use == PG_PT_PARAMETER || use == PG_PT_FROM_TYPE ||
                                     pg__pt_is_array(p, v) || is_rebuilt(pg__pickle_foreign(p, v)));
}

int pg__pt_is_trained(const pg__pickle *p, const pg__pk_value *v)
{
    const int use = pg__pt_use(p, v);
    if (v->kind != PG_PK_CALL || (use != PG_PT_TENSOR && use != PG_PT_TENSOR_V3))
        return v->kind == PG_PK_CALL && use == PG_PT_PARAMETER;
    const pg__pk_value *args = item(p, v, 1);
    return args->kind == PG_PK_TUPLE && args->n > 4 && item(p, args, 4)->kind == PG_PK_BOOL &&
           item(p, args, 4)->u.i;
}

static pg_status set_type(pg_dtype *dtype, int *pairs, const pg__pickle *p,
                          const pg__pk_value *global, pg_err *err)
{
    const pg__pk_global *g = &p->globals[global->u.i];
    if (g->use >> 8 == FOREIGN)
        return pg_fail(err, PG_E_UNSUPPORTED, "type %s.%s is not supported", g->module, g->name);
    *pairs = (g->use >> 8 & PAIRS) != 0;
    *dtype = (pg_dtype)(g->use >> 8 & ~PAIRS);
    return PG_OK;
}

pg_status pg__pt_storage_of(pg__pt_storage *out, pg_dtype *dtype, const pg__pickle *p,
                            const pg__pk_value *v, pg_err *err)
{
    const pg__pk_value *id = v->kind == PG_PK_PERSID ? item(p, v, 0) : v;
    if (v->kind != PG_PK_PERSID || id->kind != PG_PK_TUPLE || id->n < 5 ||
        !pg__pickle_is(item(p, id, 0), "storage"))
        return pg_fail(err, PG_E_FORMAT, "its storage is not a storage");
    const pg__pk_value *type = item(p, id, 1), *key = item(p, id, 2), *n = item(p, id, 4);
    if (pg__pickle_foreign(p, type))
        return pg__pt_fail_foreign(pg__pickle_foreign(p, type), err);
    const int use = type->kind == PG_PK_GLOBAL ? pg__pt_use(p, type) & 0xFF : 0;
    if ((use != PG_PT_STORAGE && use != PG_PT_UNTYPED) || key->kind != PG_PK_STR ||
        n->kind != PG_PK_INT || n->u.i < 0)
        return pg_fail(err, PG_E_FORMAT, "the description of its storage is damaged");
    if (id->n > 5 && item(p, id, 5)->kind != PG_PK_NONE)
        return pg_fail(err, PG_E_UNSUPPORTED, "its storage is a part of another one");
    pg_dtype t = PG_U8;
    int pairs = 0;
    if (use == PG_PT_STORAGE) {
        const pg_status st = set_type(&t, &pairs, p, type, err);
        if (st != PG_OK)
            return st;
        if (dtype)
            *dtype = t;
    }
    *out = (pg__pt_storage){.key = key->u.text,
                            .n_key = key->n,
                            .size = pg_dtype_bytes(t),
                            .n = (uint64_t)n->u.i << pairs,
                            .pairs = pairs};
    return PG_OK;
}

/* A tuple of sizes or strides. */
static pg_status read_numbers(uint64_t *out, uint32_t *rank, const pg__pickle *p,
                              const pg__pk_value *v, pg_err *err)
{
    if (v->kind != PG_PK_TUPLE && v->kind != PG_PK_LIST)
        return pg_fail(err, PG_E_FORMAT, "its shape or strides are not a tuple");
    if (v->n > PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "%u dimensions, at most %u are supported", v->n,
                       PG_MAX_RANK);
    for (uint32_t i = 0; i < v->n; i++) {
        const pg__pk_value *x = item(p, v, i);
        if (x->kind != PG_PK_INT || x->u.i < 0)
            return pg_fail(err, PG_E_FORMAT, "its shape or strides are not sizes");
        out[i] = (uint64_t)x->u.i;
    }
    *rank = v->n;
    return PG_OK;
}

/* Finds the function and the arguments inside parameters and subclasses. */
static pg_status unwrap(const pg__pickle *p, const pg__pk_value *v, int *use,
                        const pg__pk_value **args, pg_err *err)
{
    *use = pg__pt_use(p, v);
    *args = item(p, v, 1);
    for (int hops = 0; hops < 4; hops++) {
        if (pg__pickle_foreign(p, v))
            return pg__pt_fail_foreign(pg__pickle_foreign(p, v), err);
        if (*use == PG_PT_TENSOR || *use == PG_PT_TENSOR_V3)
            return PG_OK;
        /* only the foreign subclass knows what its elements mean: a shard, a quantity */
        for (uint32_t i = 2; *use == PG_PT_FROM_TYPE && i-- > 0;)
            if (i < (*args)->n && pg__pickle_foreign(p, item(p, *args, i)))
                return pg__pt_fail_foreign(pg__pickle_foreign(p, item(p, *args, i)), err);
        if (*use == PG_PT_PARAMETER && (*args)->n >= 1 && pg__pt_is_tensor(p, item(p, *args, 0))) {
            v = item(p, *args, 0);
            *use = pg__pt_use(p, v);
            *args = item(p, v, 1);
        } else if (*use == PG_PT_FROM_TYPE && (*args)->n >= 3 &&
                   item(p, *args, 0)->kind == PG_PK_GLOBAL &&
                   item(p, *args, 2)->kind == PG_PK_TUPLE) {
            *use = pg__pt_use(p, item(p, *args, 0));
            *args = item(p, *args, 2);
        } else {
            break;
        }
    }
    return pg_fail(err, PG_E_FORMAT, "its description is damaged");
}

/* (storage, offset, size, stride, requires_grad, hooks[, metadata]), in version 3 with the type
 * before the metadata. Metadata holds flags such as "negate when read". */
static pg_status check_metadata(const pg__pickle *p, const pg__pk_value *args, uint32_t i,
                                pg_err *err)
{
    if (i >= args->n)
        return PG_OK;
    const pg__pk_value *m = item(p, args, i);
    if (m->kind == PG_PK_NONE || (m->kind == PG_PK_DICT && m->n == 0))
        return PG_OK;
    return pg_fail(err, PG_E_UNSUPPORTED, "a view that is negated or conjugated when read");
}

/* Complex numbers become a last dimension: the real and the imaginary part. */
static pg_status split_pairs(pg__pt_tensor *t, pg_err *err)
{
    pg__strided *v = &t->view;
    if (v->rank == PG_MAX_RANK)
        return pg_fail(err, PG_E_LIMIT, "complex numbers in %d dimensions", PG_MAX_RANK);
    for (uint32_t k = 0; k < v->rank; k++)
        v->strides[k] *= 2;
    v->first *= 2;
    v->dims[v->rank] = 2;
    v->strides[v->rank++] = 1;
    return PG_OK;
}

/* The part of a tensor that one process has. */
static pg_status read_part(pg__pt_tensor *t, const pg__pickle *p, const pg__pk_value *v,
                           pg_err *err)
{
    pg_status st = PG_OK;
    const pg__pk_value *local = NULL, *type = NULL;
    PG_TRY(pg__pt_local_of(&local, &type, p, v, err));
    if (local) {
        PG_TRY(pg__pt_read_tensor(t, p, local, err));
    } else {
        PG_TRY(set_type(&t->dtype, &t->pairs, p, type, err));
        t->view = (pg__strided){.size = pg_dtype_bytes(t->dtype), .rank = 1, .strides = {1}};
        t->storage = (pg__pt_storage){.key = "", .size = t->view.size, .inside = 1};
    }
    t->cut = (uint32_t)(v - p->v);
done:
    return st;
}

pg_status pg__pt_read_tensor(pg__pt_tensor *t, const pg__pickle *p, const pg__pk_value *v,
                             pg_err *err)
{
    int use = 0, typed = 0;
    uint32_t n_strides = 0;
    const pg__pk_value *args = NULL;
    pg_status st = PG_OK;
    if (pg__pt_is_array(p, v))
        return pg__pt_read_array(t, p, v, err);
    if (pg__pt_is_cut(p, v))
        return read_part(t, p, v, err);
    PG_TRY(unwrap(p, v, &use, &args, err));
    if (args->n < (use == PG_PT_TENSOR_V3 ? 7 : 4) || item(p, args, 1)->kind != PG_PK_INT ||
        item(p, args, 1)->u.i < 0)
        PG_FAIL(PG_E_FORMAT, "its description is damaged");
    t->dtype = PG_BOOL;
    PG_TRY(pg__pt_storage_of(&t->storage, &t->dtype, p, item(p, args, 0), err));
    t->pairs = t->storage.pairs;
    typed = (pg__pt_use(p, item(p, item(p, item(p, args, 0), 0), 1)) & 0xFF) == PG_PT_STORAGE;
    if (use == PG_PT_TENSOR_V3) {
        const pg__pk_value *type = item(p, args, 6);
        if (type->kind != PG_PK_GLOBAL || (pg__pt_use(p, type) & 0xFF) != PG_PT_DTYPE)
            PG_FAIL(PG_E_FORMAT, "its type is not a type");
        PG_TRY(set_type(&t->dtype, &t->pairs, p, type, err));
    } else if (!typed) {
        PG_FAIL(PG_E_FORMAT, "its storage has no type");
    }
    PG_TRY(check_metadata(p, args, use == PG_PT_TENSOR_V3 ? 7 : 6, err));
    t->view =
        (pg__strided){.size = pg_dtype_bytes(t->dtype), .first = (uint64_t)item(p, args, 1)->u.i};
    if (__builtin_mul_overflow(t->storage.n, t->storage.size, &t->view.n_source))
        PG_FAIL(PG_E_LIMIT, "its storage is too large");
    t->view.n_source /= t->view.size;
    PG_TRY(read_numbers(t->view.dims, &t->view.rank, p, item(p, args, 2), err));
    PG_TRY(read_numbers(t->view.strides, &n_strides, p, item(p, args, 3), err));
    if (n_strides != t->view.rank)
        PG_FAIL(PG_E_FORMAT, "%u sizes, but %u strides", t->view.rank, n_strides);
    if (t->pairs)
        PG_TRY(split_pairs(t, err));
    PG_TRY(pg__strided_check(&t->view, err));
done:
    return st;
}
