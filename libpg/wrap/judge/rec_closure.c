/* rec_closure.c - home-made wrappers of any other form. Three cases, by what their slices say:
 *
 *   arguments under unknown names that play both roles (part k of G)     certain
 *   ranges of fixed size that follow each other ({start, size})          likely
 *   nothing: lambda s, i=i: tf.split(s, n)[i] and custom slice classes   likely
 *     (Mask_RCNN's ParallelModel)
 *
 * Integers that play no role (a rotation, a flip) are views of the data, not parts of the batch. A
 * Lambda without arguments is believed only if all of them run the same code: views differ in it,
 * parts differ in a closure. */
#include <string.h>
#include <strings.h>

#include "wrap/judge/recogniser.h"

static const pg__json *code_of(const pg__layer *layer)
{
    const pg__json *f = pg__json_get(layer->config, "function");
    if (pg__json_type_of(f) == PG_J_ARRAY) /* Keras 1 and 2: [code, defaults, closure] */
        return pg__json_at(f, 0);
    if (pg__json_type_of(f) ==
        PG_J_OBJECT) { /* Keras 3: a registered function or marshalled code */
        const pg__json *c = pg__json_get(f, "config");
        return pg__json_type_of(c) == PG_J_OBJECT ? pg__json_get(c, "code") : c;
    }
    return f;
}

/* The file name and line of the definition are in the code, so copies of one expression are equal
 * and two expressions are not. */
static int same_code(const pg__slices *s)
{
    size_t n0 = 0, n = 0;
    const char *first = pg__json_bytes(code_of(s->layers[0]), &n0);
    for (size_t i = 1; i < s->n_inputs * s->n_replicas; i++) {
        const char *code = pg__json_bytes(code_of(s->layers[i]), &n);
        if (!first != !code || (first && (n != n0 || memcmp(first, code, n) != 0)))
            return 0;
    }
    return 1;
}

static int has_integers(const pg__slices *s)
{
    for (size_t i = 0; i < s->n_inputs * s->n_replicas; i++) {
        pg__json_iter it = {.obj = pg__slice_args(s->layers[i])};
        while (pg__json_next(&it))
            if (pg__json_type_of(it.value) == PG_J_INT)
                return 1;
    }
    return 0;
}

static pg__saying says(const pg__slices *s)
{
    if (s->n_inputs == 0 || s->n_replicas == 0)
        return PG_SAYS_NOTHING;
    if (pg__slices_play_roles(s))
        return PG_SAYS_CERTAINLY;
    if (pg__slices_are_ranges(s))
        return PG_SAYS_LIKELY;
    return has_integers(s) || !same_code(s) ? PG_SAYS_NOTHING : PG_SAYS_LIKELY;
}

/* Op layers of tf.keras: tf.split, tf.strided_slice, tf.__operators__.getitem. */
static int slice_name(const char *layer_name)
{
    static const char *const starts[] = {"tf_op", "tf.", "strided"};
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
        if (strncasecmp(layer_name, starts[k], strlen(starts[k])) == 0)
            return 1;
    return 0;
}

const pg__recogniser pg__rec_closure = {
    .name = "closure",
    .doc = "home-made: slices with other arguments, fixed ranges, closures or custom classes",
    .slices = says,
    .slice_name = slice_name,
    .not_one_each = 1, /* tf.* layers also compute the bounds */
};
