/* dnnl_compat.c - one interface for oneDNN 2.x and 3.x. In 2.x, memory descriptors are structs, and
 * a primitive is described in two steps; in 3.x, descriptors are handles, and there is one step. */
#include "backend/cpu/dnnl_compat.h"

#include <omp.h>

int pg__dnnl_alone(void)
{
    const int was = omp_get_max_threads();
    omp_set_num_threads(1);
    return was;
}

void pg__dnnl_threads(int was)
{
    omp_set_num_threads(was);
}

dnnl_status_t pg__dnnl_attr(dnnl_primitive_attr_t *attr)
{
    const dnnl_status_t s = dnnl_primitive_attr_create(attr);
    return s ? s : dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
}

dnnl_status_t pg__dnnl_reorder(dnnl_primitive_desc_t *pd, pg__dnnl_md_ref from, pg__dnnl_md_ref to,
                               dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    return dnnl_reorder_primitive_desc_create(pd, from, engine, to, engine, attr);
}

#if DNNL_VERSION_MAJOR >= 3

dnnl_status_t pg__dnnl_md_of(pg__dnnl_md *md, int n, const dnnl_dim_t *dims,
                             const dnnl_dim_t *strides)
{
    return strides ? dnnl_memory_desc_create_with_strides(md, n, dims, dnnl_f32, strides)
                   : dnnl_memory_desc_create_with_tag(md, n, dims, dnnl_f32, dnnl_format_tag_any);
}

void pg__dnnl_md_drop(pg__dnnl_md *md)
{
    if (*md)
        (void)dnnl_memory_desc_destroy(*md);
    *md = NULL;
}

pg__dnnl_md_ref pg__dnnl_md_use(const pg__dnnl_md *md)
{
    return *md;
}

dnnl_status_t pg__dnnl_conv_y(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    return dnnl_convolution_forward_primitive_desc_create(
        pd, engine, dnnl_forward_training, dnnl_convolution_direct, c->x, c->w,
        c->has_bias ? c->b : NULL, c->y, c->stride, c->dilation, c->before, c->after, attr);
}

dnnl_status_t pg__dnnl_conv_x(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                              const_dnnl_primitive_desc_t hint)
{
    return dnnl_convolution_backward_data_primitive_desc_create(
        pd, engine, dnnl_convolution_direct, c->x, c->w, c->y, c->stride, c->dilation, c->before,
        c->after, hint, attr);
}

dnnl_status_t pg__dnnl_conv_w(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                              const_dnnl_primitive_desc_t hint)
{
    return dnnl_convolution_backward_weights_primitive_desc_create(
        pd, engine, dnnl_convolution_direct, c->x, c->w, NULL, c->y, c->stride, c->dilation,
        c->before, c->after, hint, attr);
}

#else

dnnl_status_t pg__dnnl_md_of(pg__dnnl_md *md, int n, const dnnl_dim_t *dims,
                             const dnnl_dim_t *strides)
{
    return strides ? dnnl_memory_desc_init_by_strides(md, n, dims, dnnl_f32, strides)
                   : dnnl_memory_desc_init_by_tag(md, n, dims, dnnl_f32, dnnl_format_tag_any);
}

void pg__dnnl_md_drop(pg__dnnl_md *md)
{
    *md = (pg__dnnl_md){0};
}

pg__dnnl_md_ref pg__dnnl_md_use(const pg__dnnl_md *md)
{
    return md;
}

dnnl_status_t pg__dnnl_conv_y(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    dnnl_convolution_desc_t d;
    const dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(
        &d, dnnl_forward_training, dnnl_convolution_direct, &c->x, &c->w,
        c->has_bias ? &c->b : NULL, &c->y, c->stride, c->dilation, c->before, c->after);
    return s ? s : dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

dnnl_status_t pg__dnnl_conv_x(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                              const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t d;
    const dnnl_status_t s = dnnl_dilated_convolution_backward_data_desc_init(
        &d, dnnl_convolution_direct, &c->x, &c->w, &c->y, c->stride, c->dilation, c->before,
        c->after);
    return s ? s : dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}

dnnl_status_t pg__dnnl_conv_w(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                              const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t d;
    const dnnl_status_t s = dnnl_dilated_convolution_backward_weights_desc_init(
        &d, dnnl_convolution_direct, &c->x, &c->w, NULL, &c->y, c->stride, c->dilation, c->before,
        c->after);
    return s ? s : dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}

#endif
