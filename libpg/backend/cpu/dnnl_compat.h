/* dnnl_compat.h - the part of oneDNN that we use, with one interface for 2.x and 3.x, whose C
 * interfaces differ in descriptors. Functions return oneDNN's status; the caller decides what a
 * failure means.
 *
 * oneDNN would start threads of its own. The work is divided already, so it gets one: calls that
 * create or execute must be between pg__dnnl_alone() and pg__dnnl_threads(). */
#ifndef PG_BACKEND_CPU_DNNL_COMPAT_H
#define PG_BACKEND_CPU_DNNL_COMPAT_H

#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t pg__dnnl_md;           /* owned */
typedef const_dnnl_memory_desc_t pg__dnnl_md_ref; /* as calls take it */
#else
typedef dnnl_memory_desc_t pg__dnnl_md;
typedef const dnnl_memory_desc_t *pg__dnnl_md_ref;
#endif

/* Limits oneDNN to one thread from here on. Returns the setting to restore. */
int pg__dnnl_alone(void);
void pg__dnnl_threads(int was);

/* Floats of these dimensions; strides NULL: in the order that a primitive prefers. A descriptor
 * that was made must be dropped; a zero one may be. */
dnnl_status_t pg__dnnl_md_of(pg__dnnl_md *md, int n, const dnnl_dim_t *dims,
                             const dnnl_dim_t *strides);
void pg__dnnl_md_drop(pg__dnnl_md *md);
pg__dnnl_md_ref pg__dnnl_md_use(const pg__dnnl_md *md);

/* Attributes: every execution gets scratch memory. */
dnnl_status_t pg__dnnl_attr(dnnl_primitive_attr_t *attr);
dnnl_status_t pg__dnnl_reorder(dnnl_primitive_desc_t *pd, pg__dnnl_md_ref from, pg__dnnl_md_ref to,
                               dnnl_primitive_attr_t attr, dnnl_engine_t engine);

/* A convolution's geometry. Dilation as oneDNN counts it: 0 for none. */
typedef struct pg__dnnl_conv {
    pg__dnnl_md x, w, b, y;
    int has_bias; /* of the forward pass */
    dnnl_dims_t stride, dilation, before, after;
} pg__dnnl_conv;

dnnl_status_t pg__dnnl_conv_y(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine);
/* hint: the forward pass of the same geometry */
dnnl_status_t pg__dnnl_conv_x(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                              const_dnnl_primitive_desc_t hint);
dnnl_status_t pg__dnnl_conv_w(dnnl_primitive_desc_t *pd, const pg__dnnl_conv *c,
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine,
                              const_dnnl_primitive_desc_t hint);

#endif
