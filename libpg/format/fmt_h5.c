/* fmt_h5.c - decides by the root of an HDF5 file which of Keras' layouts it has. */
#include "format/fmt_h5.h"

#include <string.h>

#include "base/try.h"
#include "format/fmt_keras_h5.h"

typedef enum layout { LEGACY, KERAS_0, PATHS, FOREIGN } layout;

int pg__hdf5_probe(const uint8_t *head, size_t n)
{
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    return n >= sizeof signature && memcmp(head, signature, sizeof signature) == 0;
}

/* The groups with which the path layout begins. */
static layout find_paths(const pg__h5 *h5)
{
    static const char *const roots[] = {"layers", "_layer_checkpoint_dependencies", "optimizer",
                                        "vars"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (pg__h5_find(h5, 0, roots[i]) != PG_H5_NONE)
            return PATHS;
    return FOREIGN;
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
    return stopped ? LEGACY : find_paths(h5); /* left by a save that failed at its start */
}

/* Programs that put a signature into the root of their files. */
typedef struct owner {
    const char *attr, *whose, *hint;
} owner;

static const owner *find_owner(const pg__h5 *h5)
{
    static const owner known[] = {
        {"PYTABLES_FORMAT_VERSION", "tables of pandas or PyTables",
         "in Python: pandas.read_hdf(FILE)"},
        {"_NCProperties", "netCDF-4", "ncdump -h FILE"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (pg__h5_attr_find(h5, 0, known[i].attr))
            return &known[i];
    return NULL;
}

static pg_status fail_foreign(const pg__h5 *h5, pg_err *err)
{
    const owner *o = find_owner(h5);
    if (!o)
        return pg_fail(err, PG_E_UNKNOWN,
                       "HDF5, but not a Keras file (no layer_names, model_weights or layers)");
    (void)pg_fail(err, PG_E_UNKNOWN, "HDF5, but not a Keras file: %s", o->whose);
    pg_err_hint(err, "%s", o->hint);
    return PG_E_UNKNOWN;
}

/* Names a file that cannot be read, by its root: nobody needs to know which part of a foreign file
 * we do not support or find odd. Damage may have removed what Keras wrote, so in that case the root
 * must have a signature. *err is unchanged if the file may be Keras'. */
static pg_status judge_root(pg__io *io, pg_status st, pg_err *err)
{
    pg__h5 *root = NULL;
    if (pg__h5_open_root(&root, io, NULL) == PG_OK && find_layout(root) == FOREIGN &&
        (st == PG_E_UNSUPPORTED || find_owner(root)))
        st = fail_foreign(root, err);
    pg__h5_close(root);
    return st;
}

pg_status pg__hdf5_note_unread(pg_store *s, const pg__h5 *h5, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    const char *names[PG_H5_UNREAD], *before = pg_store_others(s);
    const size_t n = pg__h5_unread(h5, names);
    if (n == 0)
        return PG_OK;
    PG_TRY(pg__str_printf(&text, err, "%s%s%zu value%s of types that no weight has (",
                          before ? before : "", before ? ", " : "", n, n == 1 ? "" : "s"));
    for (size_t i = 0; i < PG_H5_UNREAD && names[i]; i++)
        PG_TRY(pg__str_printf(&text, err, "%s%s", i ? ", " : "", names[i]));
    PG_TRY(pg__str_puts(&text, n > PG_H5_UNREAD ? ", ...)" : ")", err));
    PG_TRY(pg__store_set_others(s, text.s, err));
done:
    pg__str_fini(&text);
    return st;
}

pg_status pg__hdf5_say_beside(pg__str *out, size_t n, const char *names, pg_err *err)
{
    return pg__str_printf(out, err, "%zu dataset%s beside the weights (%s%s)", n, n == 1 ? "" : "s",
                          names, n > PG_H5_BESIDE ? ", ..." : "");
}

pg_status pg__hdf5_open(pg_store **out, pg__io *io, const char *path, const pg_open_opts *opts,
                        pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5 *h5 = NULL;
    (void)path;
    st = pg__h5_open(&h5, io, err);
    if (st == PG_E_UNSUPPORTED || st == PG_E_FORMAT)
        return judge_root(io, st, err);
    if (st != PG_OK)
        return st;
    switch (find_layout(h5)) {
    case LEGACY: st = pg__keras_h5_from(out, h5, io, opts, err); break;
    case FOREIGN: st = PG_E_UNKNOWN; break;
    case PATHS: st = pg__keras_v3_from(out, h5, io, opts, err); break;
    case KERAS_0:
        PG_FAIL(PG_E_UNSUPPORTED,
                "weights of Keras 0.x (nb_layers), which no Keras since 2.0 reads either");
    }
    if (st == PG_OK)
        h5 = NULL; /* now owned by the store */
    if (st == PG_E_UNKNOWN)
        st = fail_foreign(h5, err);
done:
    pg__h5_close(h5);
    return st;
}
