/* fmt_tf.c - reads TensorFlow's checkpoints: those of tf.train.Checkpoint, tf.train.Saver and
 * Keras' save_weights(), and the variables of a SavedModel, with the description of a Keras model
 * that lies beside them. format/tf does the reading. There are no layers; libpg does not write this
 * format. */
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/try.h"
#include "format/format.h"
#include "format/plain_config.h"
#include "format/tf/tf.h"

#define METADATA "{\"format\":\"tf\"}"

/* A store of this format. */
typedef struct checkpoint {
    pg__tf_bundle b;
    pg__tf_names names;
    size_t *entry;  /* by tensor of the store */
    size_t *tensor; /* by entry: of the store, or PG_NONE */
    pg__tile_window window;
} checkpoint;

static int is_index(const uint8_t tail[8])
{
    return pg__tf_is_table(tail);
}

/* ---- data ---- */

static void close_data(void *ctx)
{
    checkpoint *c = ctx;
    pg__tile_window_fini(&c->window);
    pg__tf_bundle_fini(&c->b);
    pg__tf_names_fini(&c->names);
    pg__mem_free(c->entry);
    pg__mem_free(c->tensor);
    pg__mem_free(c);
}

static pg_status read_data(void *ctx, size_t tensor, uint64_t off, void *buf, size_t n, pg_err *err)
{
    checkpoint *c = ctx;
    return pg__tiles_read(&c->window, &c->b.v[c->entry[tensor]].tiled, pg__tf_fetch, &c->b, off,
                          buf, n, err);
}

/* Nobody compares the checksum of bytes that are mapped, so it is done first. */
static int place_data(void *ctx, size_t tensor, uint64_t *off_bytes)
{
    checkpoint *c = ctx;
    const pg__tile *whole = pg__tiles_whole(&c->b.v[c->entry[tensor]].tiled);
    const pg__tf_entry *e = whole ? &c->b.v[whole->source] : NULL;
    return e && pg__tf_check(&c->b, whole->source, NULL) == PG_OK
               ? pg__io_fd(c->b.shards[e->shard], e->off, off_bytes)
               : -1;
}

static size_t find_object(const void *ctx, const char *path)
{
    const checkpoint *c = ctx;
    if (!path)
        return c->names.graph.n && !c->names.by_name ? 0 : PG_NONE;
    const size_t entry = pg__tf_names_find(&c->names, &c->b, path);
    return entry == PG_NONE ? PG_NONE : c->tensor[entry];
}

static const char *inner_object(const void *ctx)
{
    return ((const checkpoint *)ctx)->names.inner;
}

static pg_pieces pieces_of(const void *ctx, size_t tensor)
{
    const checkpoint *c = ctx;
    return pg__tiles_pieces(&c->b.v[c->entry[tensor]].tiled);
}

/* ---- the store ---- */

/* Adds "2 tensors of strings (a, b)" for the tensors of which `is` holds. */
static pg_status list(pg__str *text, const checkpoint *c, int (*is)(const pg__tf_entry *),
                      const char *what, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str names = {0};
    size_t n = 0;
    for (size_t i = 0; i < c->names.n; i++) {
        if (!is(&c->b.v[c->names.v[i].entry]))
            continue;
        if (n++ < 4)
            PG_TRY(pg__str_printf(&names, err, "%s%s", n > 1 ? ", " : "",
                                  PG_SHOW(c->names.v[i].name)));
        else if (n == 5)
            PG_TRY(pg__str_puts(&names, ", ...", err));
    }
    if (n)
        PG_TRY(pg__str_printf(text, err, "%s%zu tensor%s %s (%s)", text->n ? ", " : "", n,
                              n == 1 ? "" : "s", what, names.s));
done:
    pg__str_fini(&names);
    return st;
}

static int is_string(const pg__tf_entry *e)
{
    return e->type == PG_TF_STRING;
}

/* Where an iterator stands in its data, and other objects. */
static int is_object(const pg__tf_entry *e)
{
    return e->type == PG_TF_VARIANT || e->type == PG_TF_RESOURCE;
}

static int is_quantized(const pg__tf_entry *e)
{
    return !e->known && !is_string(e) && !is_object(e);
}

static int is_complex(const pg__tf_entry *e)
{
    return e->is_complex;
}

static pg_status list_others(pg_store *s, const checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    PG_TRY(list(&text, c, is_string, "of strings", err));
    PG_TRY(list(&text, c, is_object, "of serialized objects", err));
    PG_TRY(list(&text, c, is_quantized, "of a type that is not supported", err));
    PG_TRY(list(&text, c, is_complex, "of complex numbers, read as pairs", err));
    if (text.n)
        PG_TRY(pg__store_set_others(s, text.s, err));
done:
    pg__str_fini(&text);
    return st;
}

static pg_status add_tensors(pg_store *s, checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    size_t n = 0;
    const pg__tf_names *l = &c->names;
    c->entry = pg__mem_array(l->n, sizeof *c->entry);
    c->tensor = pg__mem_array(c->b.n, sizeof *c->tensor);
    if (!c->entry || !c->tensor)
        return pg__nomem(err);
    for (size_t i = 0; i < c->b.n; i++)
        c->tensor[i] = PG_NONE;
    for (size_t i = 0; i < l->n; i++) {
        const pg__tf_name *x = &l->v[i];
        const pg__tf_entry *e = &c->b.v[x->entry];
        if (is_string(e) || is_object(e) || (!e->known && x->is_state))
            continue;
        if (!e->known)
            PG_FAIL(PG_E_UNSUPPORTED, "%s: type %d of TensorFlow is not supported",
                    PG_SHOW(x->name), e->type);
        const pg__tensor_desc d = {
            .name = x->name, .dtype = e->dtype, .rank = e->rank, .dims = e->dims};
        PG_TRY(x->is_state ? pg__store_add_state(s, &d, err) : pg__store_add_weight(s, &d, err));
        c->tensor[x->entry] = n;
        c->entry[n++] = x->entry;
    }
done:
    return st;
}

static const char *kind_of(const pg__tf_graph *g, const pg__tf_part *p)
{
    if (p->is_model)
        return "model";
    return pg__tf_child_of(g, p->edge->node, "_state_var", 10) ? "random generator" : "optimizer";
}

/* For pg_open_opts.part "". */
static pg_status list_parts(pg_store *s, const checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__tf_parts l = {0};
    pg__str name = {0};
    if (c->names.graph.n)
        PG_TRY(pg__tf_parts_of(&l, &c->names.graph, &c->b, err));
    for (size_t i = 0; i < l.n; i++) {
        const pg__tf_part *p = &l.v[i];
        name.n = 0;
        PG_TRY(pg__str_add(&name, p->edge->name, p->edge->n_name, err));
        PG_TRY(pg__store_add_part(s,
                                  &(pg_part){.path = name.s,
                                             .kind = kind_of(&c->names.graph, p),
                                             .n_tensors = p->n_tensors,
                                             .n_params = p->n_params,
                                             .is_model = p->is_model},
                                  err));
    }
done:
    pg__mem_free(l.v);
    pg__str_fini(&name);
    return st;
}

/* ---- the description beside a SavedModel ---- */

/* SavedMetadata {repeated 1 SavedObject {3 node_path, 5 metadata}} (keras/protobuf): the JSON of
 * the root. */
static int root_metadata(const char *text, size_t n, pg__field *out)
{
    pg__proto m = {(const unsigned char *)text, n, 0};
    pg__field f, g;
    while (pg__proto_next(&m, &f)) {
        pg__proto node = {f.bytes, f.n, 0};
        pg__field json = {0};
        int root = 0;
        if (f.number != 1 || f.type != PG_PROTO_BYTES)
            continue;
        while (pg__proto_next(&node, &g)) {
            root |= g.number == 3 && g.n == 4 && memcmp(g.bytes, "root", 4) == 0;
            json = g.number == 5 && g.type == PG_PROTO_BYTES ? g : json;
        }
        if (root && json.bytes) {
            *out = json;
            return 1;
        }
    }
    return 0;
}

/* The members of the root's JSON that describe a model, as a legacy file has them: but a SavedModel
 * marks tuples. */
static pg_status set_texts(pg_store *s, const char *json, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0}, writer = {0};
    const pg__json_span all = {0, n};
    if (pg__json_check(json, n, NULL) != PG_OK)
        return PG_OK;
    const pg__json_span class = pg__json_member(json, all, "class_name");
    const pg__json_span config = pg__json_member(json, all, "config");
    const pg__json_span training = pg__json_member(json, all, "training_config");
    const pg__json_span version = pg__json_member(json, all, "keras_version");
    if (class.n == 0 || config.n == 0 || json[config.off] != '{') /* a subclassed model */
        goto done;
    PG_TRY(pg__str_printf(&text, err, "{\"class_name\": %.*s, \"config\": ", (int)class.n,
                          json + class.off));
    PG_TRY(pg__plain_config(&text, json + config.off, config.n, err));
    PG_TRY(pg__str_puts(&text, "}", err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_MODEL_CONFIG, text.s, text.n, err));
    if (training.n && json[training.off] == '{') {
        text.n = 0;
        PG_TRY(pg__plain_config(&text, json + training.off, training.n, err));
        PG_TRY(pg__store_set_text(s, PG_TEXT_TRAINING_CONFIG, text.s, text.n, err));
    }
    if (version.n > 2 && json[version.off] == '"') {
        PG_TRY(pg__str_printf(&writer, err, "keras %.*s, tensorflow", (int)version.n - 2,
                              json + version.off + 1));
        PG_TRY(pg__store_set_writer(s, writer.s, err));
    }
done:
    pg__str_fini(&text);
    pg__str_fini(&writer);
    return st;
}

/* variables/variables.index of a SavedModel has keras_metadata.pb above it. */
static pg_status read_description(pg_store *s, const char *path, pg_err *err)
{
    static const char index[] = "variables/variables.index";
    pg_status st = PG_OK;
    pg__str name = {0};
    pg__io *io = NULL;
    char *text = NULL;
    pg__field json = {0};
    const size_t n = strlen(path), k = sizeof index - 1;
    if (n < k || strcmp(path + n - k, index) != 0 || (n > k && path[n - k - 1] != '/'))
        return PG_OK;
    PG_TRY(pg__str_printf(&name, err, "%.*skeras_metadata.pb", (int)(n - k), path));
    PG_TRY(pg__io_open_if(&io, name.s, err));
    if (!io || pg__io_size(io) > PG_LIMIT_JSON_BYTES)
        goto done; /* not of Keras */
    text = pg__mem_array((size_t)pg__io_size(io), 1);
    if (!text)
        PG_TRY(pg__nomem(err));
    PG_TRY(pg__io_read(io, 0, text, (size_t)pg__io_size(io), err));
    if (root_metadata(text, (size_t)pg__io_size(io), &json))
        PG_TRY(set_texts(s, (const char *)json.bytes, json.n, err));
done:
    pg__mem_free(text);
    pg__io_close(io);
    pg__str_fini(&name);
    return st;
}

/* ---- */

static pg_status set_ranks(pg_store *s, const checkpoint *c, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    if (c->b.n_shards > 1) {
        PG_TRY(pg__str_printf(&text, err, "%u data files", c->b.n_shards));
        PG_TRY(pg__store_set_ranks(s, text.s, err));
        pg__store_add_rank_count(s, "data_files", c->b.n_shards);
    }
done:
    pg__str_fini(&text);
    return st;
}

static pg_status open_checkpoint(pg_store **out, pg__io *io, const char *path,
                                 const pg_open_opts *opts, pg_err *err)
{
    static const pg__store_io data = {.read = read_data,
                                      .close = close_data,
                                      .place = place_data,
                                      .find_object = find_object,
                                      .inner_object = inner_object,
                                      .pieces = pieces_of};
    pg_status st = PG_OK;
    pg_store *s = NULL;
    checkpoint *c = NULL;
    if (!path)
        return pg_fail(err, PG_E_UNKNOWN, "an index of TensorFlow is read beside its data files");
    c = pg__mem_array(1, sizeof *c);
    if (!c)
        return pg__nomem(err);
    PG_TRY(pg__tf_bundle_open(&c->b, io, path, err));
    PG_TRY(pg__tf_names_of(&c->names, &c->b, opts->part, err));
    PG_TRY(pg__store_new(&s, pg__fmt_tf.name, NULL, NULL, err));
    PG_TRY(add_tensors(s, c, err));
    PG_TRY(list_others(s, c, err));
    PG_TRY(set_ranks(s, c, err));
    if (opts->part && !*opts->part)
        PG_TRY(list_parts(s, c, err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, METADATA, sizeof METADATA - 1, err));
    PG_TRY(read_description(s, path, err));
    pg__store_own(s, &data, c);
    c = NULL;
    *out = s;
    s = NULL;
done:
    if (c)
        close_data(c);
    pg_store_close(s);
    return st;
}

const pg__format pg__fmt_tf = {
    .name = "tensorflow",
    .tail = is_index,
    .open = open_checkpoint,
    .in_folder = pg__tf_in_folder,
    .of_path = pg__tf_of_path,
    .suffixes = ".index\0",
    .has_parts = 1,
    .of_ranks = 1,
};
