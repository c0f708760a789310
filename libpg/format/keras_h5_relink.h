/* keras_h5_relink.h - makes a legacy output of new links to the tensors of a legacy source. */
#ifndef PG_FORMAT_KERAS_H5_RELINK_H
#define PG_FORMAT_KERAS_H5_RELINK_H

#include "format/fmt_keras_h5.h"
#include "format/format.h"
#include "format/h5/h5.h"

extern const pg__relinker pg__keras_h5_relinker;

/* Where the tensors of a tree under construction are in the old file. */
typedef struct pg__links pg__links;

/* Links n tensors of the source below group `base` of the new tree, tensor tensors[i] as names[i]:
 * links a whole old group if it holds only such tensors under such names. */
pg_status pg__links_put(pg__links *l, const char *base, const char *const *names,
                        const size_t *tensors, size_t n, pg_err *err);

/* Links object obj of the source at path. */
pg_status pg__links_one(pg__links *l, const char *path, uint32_t obj, pg_err *err);

/* keras_h5_write.c: writes all groups, lists, texts and attributes of a plan's output, with linked
 * tensors. */
pg_status pg__keras_h5_tree(pg__h5_out *h5, const pg__plan *plan, pg__links *links, pg_err *err);

#endif
