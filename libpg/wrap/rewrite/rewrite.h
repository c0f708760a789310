/* rewrite.h - one run of pgunwrap or pgwrap: the input, its verdict, the plan, the report. Shared
 * by the files that make plans; driven by unwrap.c and rewrap.c. */
#ifndef PG_WRAP_REWRITE_REWRITE_H
#define PG_WRAP_REWRITE_REWRITE_H

#include "format/format.h"
#include "model/fit/match.h"
#include "pg/unwrap.h"
#include "wrap/judge/judge.h"

typedef struct pg__rewrite {
    const char *in, *out;       /* out may be NULL in a dry run, and is in place */
    const char *like_path;      /* file of --like, or NULL: there is none, or it is a text */
    const char *like_name;      /* what messages about it begin with, or NULL */
    const pg_write_opts *write; /* NULL if a plan is only examined */
    pg__flip *file;             /* IN, locked, if it is to be changed in place */
    int may_drop; /* the caller asked for an output without description or optimizer */
    pg_store *s;
    pg__verdict v;
    pg__plan plan;
    pg__graph *like;       /* the model of --like, or NULL */
    pg_rewrite_report rep; /* lists of it are filled by pg__add_*() */
} pg__rewrite;

/* Opens r->in, locked for a change in place, and judges it. Messages name the file. */
pg_status pg__rewrite_open(pg__rewrite *r, pg_err *err);
/* Puts IN before a message that does not begin with the file of --like already. */
void pg__rewrite_blame(const pg__rewrite *r, pg_err *err);
/* Sets the hint: `what` with IN, in place again if possible; like this model (NULL: like one that
 * must be given). */
void pg__do_again(const pg__rewrite *r, pg_do what, pg_err *err);
void pg__do_like(const pg__rewrite *r, pg_do what, const char *like, pg_err *err);

/* After planning, whose status is st: names IN in its message. In place, refuses a file of another
 * layout for that reason, whatever else is wrong. */
pg_status pg__rewrite_planned(pg__rewrite *r, pg_status st, pg_err *err);
/* Checks that names and options of a call are compatible. */
pg_status pg__rewrite_check(const char *in, const char *out, const pg_write_opts *w, pg_err *err);
/* Writes r->plan, or with dry_run only checks that it could be; completes r->rep. */
pg_status pg__rewrite_save(pg__rewrite *r, pg_err *err);
void pg__rewrite_fini(pg__rewrite *r);

/* in_place.c: carries out r->plan in IN, or with dry_run only shows that it could be; completes
 * r->rep. f: the format of IN. */
pg_status pg__in_place_save(pg__rewrite *r, const pg__format *f, pg_err *err);
/* Sets the hint for that case: write a new file instead. */
void pg__in_place_instead(const pg__rewrite *r, pg_err *err);
/* If the system failed before the change, adds to the message that nothing changed. */
void pg__in_place_failed(const pg__rewrite *r, pg_status st, pg_err *err);
/* Sets the hint if OUT is IN: to change it in place, if that is possible; a file that only HDF5's
 * own library reads cannot be. */
void pg__in_place_propose(const pg__rewrite *r, const pg__format *f, pg__io *input, pg_err *err);

/* ---- provenance.c: metadata of safetensors ---- */

/* Appends to the members of an object: "pg.source", the base name of the file that s was read from,
 * "pg.crc32" of it (both absent if s does not come from a file), and "pg.tool". */
pg_status pg__add_provenance(pg__str *out, const pg_store *s, const pg_write_opts *w, pg_err *err);
/* Appends members of s' own metadata: all but "pg.", or only "format". */
pg_status pg__keep_metadata(pg__str *out, const pg_store *s, int all, pg_err *err);
/* Both become the metadata of s. */
pg_status pg__note_provenance(pg_store *s, const pg_write_opts *w, pg_err *err);

/* Lines of the report. */
pg_status pg__add_removed(pg__rewrite *r, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
pg_status pg__add_kept(pg__rewrite *r, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
pg_status pg__add_note(pg__rewrite *r, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
pg_status pg__add_missing(pg__rewrite *r, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
pg_status pg__add_extra(pg__rewrite *r, pg_err *err, const char *fmt, ...) PG_PRINTF(3, 4);
pg_status pg__add_template(pg__rewrite *r, const char *name, pg_err *err);

/* ---- template.c: legacy layout, the template is known ---- */

/* Plans model m from store layer `layer`, which holds all its weights in one list. rename: gives
 * weights that had to be placed by order the model's names. PG_E_MISMATCH if they do not fit. */
pg_status pg__plan_template(pg__rewrite *r, size_t layer, const pg__model *m, int dialect,
                            int rename, pg_err *err);

/* PG_OK if the weights of store layer `layer` fit m exactly; nothing is planned. */
pg_status pg__fits_template(const pg_store *s, size_t layer, const pg__model *m, int dialect,
                            pg_err *err);

/* The list of a store layer in the matcher's form; free with pg__mem_free(). */
pg_status pg__stored_of(pg__stored **out, const pg_store *s, size_t layer, pg_err *err);

/* "model_2/dense_5/kernel:0" for variable var of leaf: "dense/kernel:0". Keeps the style of the
 * era. */
pg_status pg__rename_weight(pg__str *out, const char *old, const pg__leaf *leaf, const pg__var *var,
                            pg_err *err);

/* Puts items into layers: layer_of[i] is the plan layer of the store's weight first + i; their
 * order in the store is kept within a layer. names: new name per weight, or NULL for the old ones.
 */
typedef struct pg__grouping {
    size_t n_layers, n_weights, first;
    const size_t *layer_of;
    char **names;
} pg__grouping;
pg_status pg__plan_groups(pg__plan *plan, const pg__grouping *g,
                          const char *(*layer_name)(const void *, size_t), const void *ctx,
                          pg_err *err);

/* ---- texts.c: model_config, training_config, config.json ---- */

/* {"class_name", "config"} of model `layer` (an entry of the graph), its config cut out as bytes.
 */
pg_status pg__text_model(pg__str *out, const pg__graph *g, const pg__layer *layer, pg_err *err);

/* config.json of a .keras: the keys of a model's entry in `text`, and the compile_config of the
 * model that was compiled (NULL: none), its dicts renamed from[k] -> to[k]. */
pg_status pg__text_zip(pg__str *out, const char *text, pg__json_span entry,
                       const pg__graph *compiled, const pg__strs *from, const pg__strs *to,
                       pg_err *err);

/* *same = 1 if two descriptions differ in nothing but white space and shared_object_id, which Keras
 * counts anew in every save. */
pg_status pg__text_same(int *same, const char *a, size_t na, const char *b, size_t nb, pg_err *err);

/* A training_config (or compile_config) whose dicts are keyed by output names from[k]: to[k]
 * instead. *clash is 1 if names coincide, so that some dict was left as it was. */
pg_status pg__text_training(pg__str *out, const char *text, size_t n, const pg__strs *from,
                            const pg__strs *to, int *clash, pg_err *err);

/* ---- the ways to make a plan ---- */

/* unwrap.c: the plan of pg_unwrap_file() for what pg__rewrite_open() found. */
pg_status pg__plan_unwrap(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err);

/* unwrap_h5.c, unwrap_paths.c, unwrap_prefix.c, unwrap_objects.c */
pg_status pg__unwrap_h5(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err);
pg_status pg__unwrap_paths(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err);
pg_status pg__unwrap_prefix(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err);
pg_status pg__unwrap_objects(pg__rewrite *r, const pg_unwrap_opts *o, pg_err *err);

/* unwrap_h5.c: what the report says of a wrapper, and the texts of its template, which the
 * training_config trained if `trained`. */
pg_status pg__report_wrapper(pg__rewrite *r, const char *name, pg_err *err);
pg_status pg__full_texts(pg__rewrite *r, const pg__layer *entry, int trained,
                         const pg_unwrap_opts *o, pg_err *err);

/* unwrap_plain.c: PyTorch names without wrappers' words, matched with the names of the bare model's
 * file (--like). */
typedef struct pg__plain {
    pg_store *s;
    const char *path;
    size_t *sorted; /* its tensors by name */
    unsigned char *used;
    unsigned gone; /* bit k: word k was removed from a name */
} pg__plain;
pg_status pg__plain_open(pg__plain *p, const pg_unwrap_opts *o, pg_err *err);
pg_status pg__plain_name(char **out, pg__plain *p, const pg_store *s, size_t i, pg_err *err);
/* Call it after all names: checks that each of the bare model's was found, and some word removed.
 */
pg_status pg__plain_check(const pg__plain *p, pg_err *err);
/* "module, _orig_mod": the removed words. */
pg_status pg__plain_words(pg__str *out, const pg__plain *p, pg_err *err);
void pg__plain_fini(pg__plain *p);

/* repair.c: makes a legacy file that is not a wrapper fit a model; also wraps its layers into one
 * layer's list. */
pg_status pg__repair(pg__rewrite *r, const pg__graph *like, const pg_unwrap_opts *o, pg_err *err);

/* Where the weights of a plain legacy file belong in a model: per weight of the store a leaf and a
 * variable, or PG_NONE. align as pg__align() gave it. PG_E_MISMATCH with details. */
typedef struct pg__location {
    size_t n;
    size_t *leaf, *var;
} pg__location;
pg_status pg__locate(pg__location *out, const pg_store *s, const pg__alignment *align,
                     const pg__leaves *leaves, pg_err *err);
void pg__location_fini(pg__location *l);

/* Adds the weights of a plain file that fits model t to the plan's last layer, in the order in
 * which Keras stores t as one layer: trainable ones first, by the description's flags. */
pg_status pg__plan_flat(pg__rewrite *r, const pg__model *t, int dialect, pg_err *err);

/* unwrap_paths.c: the group that holds the template of a judged wrapper, "layers/functional". */
pg_status pg__template_group(pg__str *out, const pg_store *s, const pg__verdict *v, pg_err *err);

/* The first layer of a model that a file of the path layout does not fill. */
typedef struct pg__path_misfit {
    const pg__layer *layer; /* NULL: the number of variables is not the reason */
    size_t n_expected, n_held;
} pg__path_misfit;

/* Groups of all layers of m below container ("layers"), appended to out. */
pg_status pg__layer_paths(pg__strs *out, const pg__model *m, const char *container, pg_err *err);

/* What a store of the path layout holds below group ("": all of it) against model m: every leaf has
 * its variables, of its shapes, and nothing is left over. PG_E_MISMATCH; misfit may be NULL. */
pg_status pg__fits_paths(const pg_store *s, const char *group, const pg__model *m, int dialect,
                         pg__path_misfit *misfit, pg_err *err);

/* rewrap_paths.c: IN of the path layout into the groups of the wrapper file `like`. */
pg_status pg__wrap_paths(pg__rewrite *r, const pg_store *like, const pg__verdict *lv, pg_err *err);

/* The model whose file the user means with --like: if the input is a wrapper's file too, a
 * wrapper's description stands for its template. Sets *tmpl to the template's entry, or NULL. */
pg_status pg__like_template(const pg__layer **tmpl, const pg__graph *like, pg_err *err);

#endif
