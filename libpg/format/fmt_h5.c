/* fmt_h5.c - which of Keras' layouts an HDF5 file has, by what its root holds. */
#include "format/fmt_h5.h"

#include <string.h>

#include "base/try.h"
#include "format/fmt_keras_h5.h"

typedef enum layout { LEGACY, KERAS_0, PATHS } layout; /* PATHS: or nothing of Keras */

int pg__hdf5_probe(const uint8_t *head, size_t n)
{
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    return n >= sizeof signature && memcmp(head, signature, sizeof signature) == 0;
}

static layout find_layout(const pg__h5 *h5)
{
    const pg__h5_object *root = pg__h5_at(h5, 0);
    int stopped = root->n_attrs == 0 && root->n_children == 0, keras_0 = 0;
    for (uint32_t k = 0; k < root->n_attrs; k++) {
        const char *name = pg__h5_attr_at(h5, 0, k)->name;
        if (pg__keras_is_part(name, "layer_names") || strcmp(name, "model_config") == 0)
            return LEGACY;
        keras_0 |= strcmp(name, "nb_layers") == 0;
        stopped |= strcmp(name, "keras_version") == 0 || strcmp(name, "backend") == 0;
    }
    const uint32_t weights = pg__h5_find(h5, 0, "model_weights");
    if (weights != PG_H5_NONE && pg__h5_at(h5, weights)->kind == PG_H5_GROUP)
        return LEGACY;
    if (keras_0)
        return KERAS_0;
    return stopped ? LEGACY : PATHS; /* what is left of a save that failed at its start */
}

pg_status pg__hdf5_open(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                        pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5 *h5 = NULL;
    (void)path;
    PG_TRY(pg__h5_open_or_trust(&h5, io, opts && opts->trust_input, err));
    switch (find_layout(h5)) {
    case LEGACY: st = pg__keras_h5_from(out, h5, io, opts, err); break;
    case PATHS: st = pg__keras_v3_from(out, h5, io, opts, err); break;
    case KERAS_0:
        PG_FAIL(PG_E_UNSUPPORTED,
                "weights of Keras 0.x (nb_layers), which no Keras since 2.0 reads either");
    }
    if (st == PG_OK)
        h5 = NULL; /* the store's now */
    if (st == PG_E_UNKNOWN)
        PG_FAIL(st, "HDF5, but not a Keras file (no layer_names, model_weights or layers)");
done:
    pg__h5_close(h5);
    return st;
}
