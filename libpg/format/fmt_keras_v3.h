/* fmt_keras_v3.h - the path layout (.weights.h5, also inside .keras and over several shards): what
 * its three formats share, and what wrap/ needs from it. Layout: fmt_keras_v3.c.
 *
 * A layer of the store is a group that owns a `vars` group, named by its path ("layers/lstm/cell";
 * the model itself, if it has variables of its own, is "/"). Weights have full paths
 * ("layers/lstm/cell/vars/0"). */
#ifndef PG_FORMAT_FMT_KERAS_V3_H
#define PG_FORMAT_FMT_KERAS_V3_H

#include "base/str.h"
#include "format/fmt_h5.h"
#include "io/zip.h"

/* Origin of a store: one HDF5 file, or several that complement each other. */
typedef struct pg__v3_part {
    pg__h5 *h5;
    pg__io *io;
    char *name; /* for messages; "" for the only one */
} pg__v3_part;

typedef struct pg__v3_place {
    uint32_t part, obj;
} pg__v3_place;

typedef struct pg__v3 {
    pg__v3_part *parts;
    size_t n_parts, cap_parts;
    pg__v3_place *tensors; /* by tensor number of the store */
    size_t n_tensors, cap_tensors;
    pg__zip *zip; /* .keras: the archive, for its other members; else NULL */
    char *index;  /* a shard opened alone: file name of its index; else NULL */
} pg__v3;

pg_status pg__v3_new(pg__v3 **out, pg_err *err);
void pg__v3_free(pg__v3 *v); /* NULL is allowed */

/* Appends a file. On success v owns h5 and references io; on failure the caller still owns h5. */
pg_status pg__v3_add_part(pg__v3 *v, pg__h5 *h5, pg__io *io, const char *name, pg_err *err);

/* Makes a store of all parts; format as for pg__store_new(). On success it owns v. */
pg_status pg__v3_store(pg_store **out, const char *format, pg__v3 *v, const pg_open_opts *opts,
                       pg_err *err);

/* The parts behind a store of these formats, NULL for any other store. */
const pg__v3 *pg__v3_of(const pg_store *s);

/* Name of a layer in its model (vars/@name, written by Keras 3.6 and later), or NULL. The model's
 * own: pg__v3_model_name(). Valid as long as the store. */
const char *pg__v3_layer_name(const pg_store *s, size_t layer);
const char *pg__v3_model_name(const pg_store *s);

/* File name of the index of a shard that was opened alone ("x.weights.json"), NULL for whole
 * stores. A shard alone proves nothing: weights and whole layers may be elsewhere. */
const char *pg__v3_shard_index(const pg_store *s);

/* Name of the group that holds the layers: "layers", or in Keras 2.12 and 2.13
 * "_layer_checkpoint_dependencies"; NULL if there is none (subclassed models). For a store without
 * groups (shards of such a file), derived from the names of its layers. */
const char *pg__v3_container(const pg_store *s);

/* Writes the full path of an object into out (emptied before), without a leading slash; "" is the
 * root. */
pg_status pg__v3_object_path(pg__str *out, const pg__h5 *h, uint32_t obj, pg_err *err);

/* Order of paths in a store: component by component, a group before its contents. */
int pg__v3_path_cmp(const char *a, const char *b);

/* Whether the path holds training state (optimizer, metrics), of the model or of a model nested in
 * it. */
int pg__v3_is_state(const char *path);

/* ---- writing (keras_v3_write.c) ---- */

/* The HDF5 image of a plan: all metadata, laid out, without tensor bytes. Work is reported to sink,
 * which may be NULL. */
typedef struct pg__v3_image pg__v3_image;
pg_status pg__v3_image_new(pg__v3_image **out, const pg__plan *plan, pg__sink *sink, pg_err *err);
void pg__v3_image_free(pg__v3_image *m); /* NULL is allowed */
uint64_t pg__v3_image_bytes(const pg__v3_image *m);

/* Writes the image and copies every tensor; the image starts at byte base of sink. */
pg_status pg__v3_image_write(pg__v3_image *m, pg__sink *sink, uint64_t base, pg_err *err);

/* pg__format.verify of the layout: attributes of the layers' groups. */
pg_status pg__v3_verify(pg_store *out, const pg__plan *plan, pg_err *err);

/* ---- names and lifting (keras_v3_lift.c) ---- */

/* Fills plan (zeroed) with the template at group ("layers/functional", any depth): everything below
 * it moves up; its own optimizer and metrics and everything around it go; other groups of the root
 * (optimizer, metrics) stay. The caller sets texts. PG_E_ARG if the store has no such group. */
pg_status pg__v3_lift(pg__plan *plan, pg_store *src, const char *group, pg_err *err);

/* Appends Keras' snake case of a class name to out: "Conv2D" -> "conv2d", "PReLU" -> "p_re_lu". */
pg_status pg__v3_snake(pg__str *out, const char *class_name, pg_err *err);

/* Appends to out the paths of the n layers of a container: container + "/" + snake case of the
 * class, with _k for the k-th repeat of the class in `layers` order. weighted: only for Keras 2.12
 * and 2.13, which count a layer with weights twice (three Dense are dense, dense_2, dense_4); one
 * byte per layer, NULL for all other versions. */
pg_status pg__v3_layer_paths(pg__strs *out, const char *container, const char *const *classes,
                             size_t n, const unsigned char *weighted, pg_err *err);

#endif
