/* pytorch_cut.c - tensors that a process saved as its part of a larger one, with torch.save():
 *
 *     _rebuild_from_type_v2(_rebuild_wrapper_subclass, DTensor, (DTensor, dtype, size, ...),
 *         (None, {_local_tensor, _spec: DTensorSpec{mesh: DeviceMesh, placements}}))
 *     _rebuild_from_type_v2(_rebuild_wrapper_subclass, ShardedTensor, (ShardedTensor, dtype, ...),
 *         ([Shard{tensor, metadata{shard_offsets, shard_sizes}}], ShardedTensorMetadata{size, ...},
 *          ProcessGroupState{global_rank, global_world_size}, ...))
 *
 * None of these classes is built: their attributes are read. */
#include <string.h>

#include "base/try.h"
#include "format/pytorch_impl.h"

#define MAX_AXES 8u /* of a mesh */

static const pg__pk_value *item(const pg__pickle *p, const pg__pk_value *v, uint32_t i)
{
    return &p->v[v->u.items[i]];
}

static int is_row(const pg__pk_value *v)
{
    return v && (v->kind == PG_PK_TUPLE || v->kind == PG_PK_LIST);
}

static const pg__pk_value *at(const pg__pickle *p, const pg__pk_value *row, uint32_t i)
{
    return is_row(row) && i < row->n ? item(p, row, i) : NULL;
}

/* What was put into an object last: a dictionary, or (None, a dictionary) if its class has slots.
 */
static const pg__pk_value *attribute(const pg__pickle *p, const pg__pk_value *v, const char *name)
{
    const pg__pk_value *state = v && v->kind == PG_PK_CALL && v->n > 2 ? item(p, v, v->n - 1) : v;
    if (is_row(state) && state->n == 2)
        state = item(p, state, 1);
    return state && state->kind == PG_PK_DICT ? pg__pickle_get(p, state, name) : NULL;
}

static int is_class(const pg__pickle *p, const pg__pk_value *v, const char *name)
{
    const pg__pk_foreign *f = v ? pg__pickle_foreign(p, v) : NULL;
    return f && pg__pt_is_of_torch(f) && f->n_name == strlen(name) &&
           memcmp(f->name, name, f->n_name) == 0;
}

/* The call of _rebuild_from_type_v2, around which there may be a parameter; NULL: v is none. */
static const pg__pk_value *wrapped(const pg__pickle *p, const pg__pk_value *v)
{
    if (v->kind == PG_PK_CALL && pg__pt_use(p, v) == PG_PT_PARAMETER && item(p, v, 1)->n > 0)
        v = item(p, item(p, v, 1), 0);
    if (v->kind != PG_PK_CALL || pg__pt_use(p, v) != PG_PT_FROM_TYPE || item(p, v, 1)->n < 4)
        return NULL;
    return item(p, v, 1);
}

static int is_dtensor(const pg__pickle *p, const pg__pk_value *args)
{
    return is_class(p, item(p, args, 1), "DTensor");
}

int pg__pt_is_cut(const pg__pickle *p, const pg__pk_value *v)
{
    const pg__pk_value *args = wrapped(p, v);
    return args && (is_dtensor(p, args) || is_class(p, item(p, args, 1), "ShardedTensor"));
}

/* ---- numbers ---- */

static int read_int(uint64_t *out, const pg__pk_value *v)
{
    if (!v || v->kind != PG_PK_INT || v->u.i < 0)
        return 0;
    *out = (uint64_t)v->u.i;
    return 1;
}

/* A tuple, a list or a torch.Size of at most `most` numbers. */
static int read_row(uint64_t *out, uint32_t *n, uint32_t most, const pg__pickle *p,
                    const pg__pk_value *v)
{
    if (v && v->kind == PG_PK_CALL)
        v = at(p, item(p, v, 1), 0);
    if (!is_row(v) || v->n > most)
        return 0;
    for (uint32_t i = 0; i < v->n; i++)
        if (!read_int(&out[i], item(p, v, i)))
            return 0;
    *n = v->n;
    return 1;
}

/* ---- DTensor ---- */

typedef struct mesh {
    uint64_t dims[MAX_AXES], at[MAX_AXES]; /* extents; where this process is */
    uint32_t n;
} mesh;

/* The number of processes along one axis: a number, or a layout of several (CuTe's). */
static int count(uint64_t *n, const pg__pickle *p, const pg__pk_value *v, unsigned depth)
{
    uint64_t part = 1;
    if (read_int(n, v))
        return 1;
    *n = 1;
    if (!is_row(v) || depth == 0 || v->n > MAX_AXES) /* a row may be shared by many */
        return 0;
    for (uint32_t i = 0; i < v->n; i++)
        if (!count(&part, p, item(p, v, i), depth - 1) || __builtin_mul_overflow(*n, part, n))
            return 0;
    return 1;
}

/* torch 2.15: _layout.axes[].shape; 2.9: _layout.shape; before: the shape of the tensor `mesh`. */
static int read_mesh(mesh *m, const pg__pickle *p, const pg__pk_value *v)
{
    const pg__pk_value *layout = attribute(p, v, "_layout"), *ranks = attribute(p, v, "mesh");
    const pg__pk_value *axes = layout ? attribute(p, layout, "axes") : NULL;
    const pg__pk_value *shape = axes ? axes : layout ? attribute(p, layout, "shape") : NULL;
    uint32_t n = 0;
    if (!layout && ranks && ranks->kind == PG_PK_CALL && pg__pt_use(p, ranks) == PG_PT_TENSOR)
        shape = at(p, item(p, ranks, 1), 2);
    if (!read_row(m->at, &n, MAX_AXES, p, attribute(p, v, "_coordinate_on_dim")))
        return 0;
    m->n = n;
    if (shape && shape->kind == PG_PK_INT)
        return n == 1 && read_int(&m->dims[0], shape);
    if (!is_row(shape) || shape->n != n)
        return 0;
    for (uint32_t i = 0; i < n; i++) {
        const pg__pk_value *axis = item(p, shape, i);
        if (!count(&m->dims[i], p, axes ? attribute(p, axis, "shape") : axis, 4) ||
            m->at[i] >= m->dims[i])
            return 0;
    }
    return 1;
}

/* Which process it is: as the mesh says, or by its place among the ranks of the mesh. */
static void read_who(pg__pt_cut *c, const mesh *m, const pg__pickle *p, const pg__pk_value *v)
{
    const pg__pk_value *list = attribute(p, v, "_flatten_mesh_list");
    uint64_t i = 0, n = 0;
    for (uint32_t k = 0; k < m->n; k++)
        i = i * m->dims[k] + m->at[k];
    c->knows_who = read_int(&c->who, attribute(p, v, "_rank")) ||
                   (i < UINT32_MAX && read_int(&c->who, at(p, list, (uint32_t)i)));
    list = list ? list : attribute(p, v, "_flatten_rank_map");
    for (uint32_t k = 0; is_row(list) && k < list->n; k++)
        if (read_int(&n, item(p, list, k)) && n >= c->world)
            c->world = n + 1;
}

/* One axis of a mesh cuts `dim` of the tensor, or none. */
typedef struct cut {
    int cuts, strided;
    uint64_t dim, factor;
} cut;

static pg_status read_placement(cut *out, const pg__pickle *p, const pg__pk_value *v, uint32_t rank,
                                pg_err *err)
{
    const pg__pk_value *args = v->kind == PG_PK_CALL ? item(p, v, 1) : NULL;
    const pg__pk_value *dim = attribute(p, v, "dim");
    *out = (cut){.strided = is_class(p, v, "_StridedShard")};
    if (is_class(p, v, "Replicate"))
        return PG_OK;
    if (is_class(p, v, "Partial") || is_class(p, v, "_Partial"))
        return pg_fail(err, PG_E_UNSUPPORTED, "its values are to be summed over processes");
    if (!out->strided && !is_class(p, v, "Shard"))
        return pg_fail(err, PG_E_UNSUPPORTED, "a placement that libpg does not know");
    out->cuts = 1;
    if (!read_int(&out->dim, dim ? dim : at(p, args, 0)) || out->dim >= rank ||
        (out->strided && !read_int(&out->factor, attribute(p, v, "split_factor"))))
        return pg_fail(err, PG_E_FORMAT, "its placement makes no sense");
    return PG_OK;
}

/* torch.chunk(): parts of ceil(n / ways), the last ones smaller or empty. */
static void narrow(pg__pt_cut *c, uint64_t dim, uint64_t ways, uint64_t which)
{
    const uint64_t n = c->size[dim], part = n / ways + (n % ways != 0);
    uint64_t lo = 0;
    if (__builtin_mul_overflow(part, which, &lo) || lo > n)
        lo = n;
    c->start[dim] += lo;
    c->size[dim] = n - lo < part ? n - lo : part;
}

/* Axes cut from left to right, except that a strided one comes after all to its right: FSDP cuts
 * what tensor parallelism has left. Its factor is in how many parts they cut. */
static pg_status order_axes(uint32_t order[MAX_AXES], const cut *cuts, const mesh *m, pg_err *err)
{
    uint32_t n = 0;
    for (uint32_t k = m->n; k-- > 0; n++) {
        uint64_t factor = 1;
        for (uint32_t j = k + 1; j < m->n; j++)
            if (cuts[j].cuts && cuts[j].dim == cuts[k].dim &&
                __builtin_mul_overflow(factor, m->dims[j], &factor))
                factor = 0;
        if (cuts[k].strided && cuts[k].factor != factor)
            return pg_fail(err, PG_E_UNSUPPORTED,
                           "rows of a process that do not follow each other");
        if (!cuts[k].strided)
            memmove(order + 1, order, n * sizeof *order);
        order[cuts[k].strided ? n : 0] = k;
    }
    return PG_OK;
}

/* An order of its own, if the spec has one, must be the usual one. */
static int is_usual_order(const pg__pickle *p, const pg__pk_value *list)
{
    uint64_t axes[MAX_AXES];
    uint32_t n = 0;
    for (uint32_t i = 0; is_row(list) && i < list->n; i++) {
        const pg__pk_value *entry = item(p, list, i);
        if (entry->kind != PG_PK_CALL ||
            !read_row(axes, &n, MAX_AXES, p, at(p, item(p, entry, 1), 1)))
            return 0;
        for (uint32_t k = 1; k < n; k++)
            if (axes[k - 1] >= axes[k])
                return 0;
    }
    return 1;
}

static pg_status read_dtensor(pg__pt_cut *c, const pg__pickle *p, const pg__pk_value *args,
                              pg_err *err)
{
    pg_status st = PG_OK;
    mesh m = {0};
    cut cuts[MAX_AXES];
    uint32_t order[MAX_AXES] = {0};
    const pg__pk_value *spec = attribute(p, item(p, args, 3), "_spec");
    const pg__pk_value *on = attribute(p, spec, "mesh"), *how = attribute(p, spec, "placements");
    if (!read_row(c->dims, &c->rank, PG_MAX_RANK - 1, p, at(p, item(p, args, 2), 2)))
        return pg_fail(err, PG_E_FORMAT, "its shape is not one");
    if (!on || !read_mesh(&m, p, on) || !is_row(how) || how->n != m.n)
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "a DTensor whose mesh is not as torch 2.5 to 2.15 describe it");
    memcpy(c->size, c->dims, sizeof c->size);
    read_who(c, &m, p, on);
    for (uint32_t k = 0; k < m.n; k++)
        PG_TRY(read_placement(&cuts[k], p, item(p, how, k), c->rank, err));
    PG_TRY(order_axes(order, cuts, &m, err));
    if (!is_usual_order(p, attribute(p, spec, "shard_order")))
        PG_FAIL(PG_E_UNSUPPORTED, "its axes are cut in an order of their own");
    for (uint32_t k = 0; k < m.n; k++)
        if (cuts[order[k]].cuts)
            narrow(c, cuts[order[k]].dim, m.dims[order[k]], m.at[order[k]]);
done:
    return st;
}

/* ---- ShardedTensor ---- */

static const pg__pk_value *only_shard(const pg__pickle *p, const pg__pk_value *args)
{
    return at(p, at(p, item(p, args, 3), 0), 0);
}

static pg_status read_sharded(pg__pt_cut *c, const pg__pickle *p, const pg__pk_value *args,
                              pg_err *err)
{
    const pg__pk_value *state = item(p, args, 3), *shards = at(p, state, 0);
    const pg__pk_value *group = at(p, state, 2), *shard = only_shard(p, args);
    const pg__pk_value *box = shard ? attribute(p, shard, "metadata") : NULL;
    uint32_t n = 0, n2 = 0;
    if (!is_row(shards) ||
        !read_row(c->dims, &c->rank, PG_MAX_RANK - 1, p, attribute(p, at(p, state, 1), "size")))
        return pg_fail(err, PG_E_FORMAT, "its description is damaged");
    if (shards->n > 1)
        return pg_fail(err, PG_E_UNSUPPORTED, "several parts of it in one process");
    c->knows_who = read_int(&c->who, attribute(p, group, "global_rank"));
    (void)read_int(&c->world, attribute(p, group, "global_world_size"));
    c->empty = !shard;
    if (shard && (!read_row(c->start, &n, c->rank, p, attribute(p, box, "shard_offsets")) ||
                  !read_row(c->size, &n2, c->rank, p, attribute(p, box, "shard_sizes")) ||
                  n != c->rank || n2 != c->rank))
        return pg_fail(err, PG_E_FORMAT, "its description is damaged");
    return PG_OK;
}

/* ---- both ---- */

pg_status pg__pt_read_cut(pg__pt_cut *out, const pg__pickle *p, const pg__pk_value *v, pg_err *err)
{
    const pg__pk_value *args = wrapped(p, v);
    *out = (pg__pt_cut){0};
    return is_dtensor(p, args) ? read_dtensor(out, p, args, err) : read_sharded(out, p, args, err);
}

pg_status pg__pt_local_of(const pg__pk_value **out, const pg__pk_value **type, const pg__pickle *p,
                          const pg__pk_value *v, pg_err *err)
{
    const pg__pk_value *args = wrapped(p, v), *shard = only_shard(p, args);
    *out = is_dtensor(p, args) ? attribute(p, item(p, args, 3), "_local_tensor")
           : shard             ? attribute(p, shard, "tensor")
                               : NULL;
    *type = at(p, item(p, args, 2), 1);
    const int none = !is_dtensor(p, args) && is_row(at(p, item(p, args, 3), 0)) && !shard;
    if (!none && (!*out || !pg__pt_is_tensor(p, *out) || pg__pt_is_cut(p, *out)))
        return pg_fail(err, PG_E_FORMAT, "the part of this process is not a tensor");
    if (none && (!*type || (pg__pt_use(p, *type) & 0xFF) != PG_PT_DTYPE))
        return pg_fail(err, PG_E_FORMAT, "its type is not a type");
    return PG_OK;
}

const pg__pk_foreign *pg__pt_cut_class(const pg__pickle *p, const pg__pk_value *v)
{
    return pg__pickle_foreign(p, item(p, wrapped(p, v), 1));
}
