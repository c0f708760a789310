/* place.c - assigns the weights of a wrapper's flat list to the layers of the template (FORMATS.md:
 * "Owners by name", "Placing by order"): tries four readings of the names, one after the other and
 * never mixed, and accepts one only if it passes the fit test; then the order alone, if variables,
 * shapes and the file's own prefixes agree with it. Names are never enough: two processes count
 * layers differently, and "dense_1" of the file may be "dense" of the template. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "model/fit/fit.h"

/* Largest number of weights without a layer in their names: each costs a walk through the model. */
#define MAX_BARE 64

void pg__placing_fini(pg__placing *p)
{
    pg__mem_free(p->leaf);
    pg__mem_free(p->var);
    *p = (pg__placing){0};
}

/* Moves the result of a fit into a placing. */
static void take(pg__placing *out, pg__fit *f, size_t n, pg__placed_by how)
{
    *out = (pg__placing){.n = n, .leaf = f->leaf, .var = f->var, .how = how};
    f->leaf = f->var = NULL;
}

/* How much of the list a fit explains, to choose the fit that is reported. */
static size_t faults(const pg__fit *f)
{
    return f->n_extra + f->n_missing + f->n_shape;
}

/* The leaf that can hold weights if there is exactly one, otherwise PG_NONE. */
static size_t only_leaf(const pg__leaves *leaves)
{
    size_t only = PG_NONE;
    for (size_t i = 0; i < leaves->n; i++)
        if (!leaves->v[i].vars.known || leaves->v[i].vars.n > 0) {
            if (only != PG_NONE)
                return PG_NONE;
            only = i;
        }
    return only;
}

/* Finds the owners in one reading; 0 if no weight has an owner. */
static size_t read_owners(pg__owner *owners, const pg__owner_table *table, const pg__stored *stored,
                          size_t n, pg__placed_by how)
{
    size_t n_owned = 0;
    for (size_t i = 0; i < n; i++) {
        owners[i] = pg__owner_of(table, stored[i].name, how);
        n_owned += owners[i].leaf != PG_NONE;
    }
    return n_owned;
}

/* The unclaimed leaf with a variable of this name if there is exactly one, otherwise PG_NONE. */
static size_t unclaimed_leaf(const pg__leaves *leaves, const unsigned char *claimed,
                             pg__name_piece var)
{
    size_t found = PG_NONE;
    for (size_t i = 0; i < leaves->n; i++)
        for (size_t k = 0; k < leaves->v[i].vars.n && !claimed[i]; k++)
            if (pg__var_is_named(&leaves->v[i].vars.v[k], var)) {
                if (found != PG_NONE)
                    return PG_NONE;
                found = i;
                break;
            }
    return found;
}

/* A layer that was built before it was called (as adapt() builds a Normalization) has weight names
 * without the layer: "mean:0". Such a name can only mean a layer that no other weight names. */
static pg_status give_bare_names(pg__owner *owners, const pg__leaves *leaves,
                                 const pg__stored *stored, size_t n, pg_err *err)
{
    unsigned char *claimed = pg__mem_array(leaves->n, 1);
    size_t n_bare = 0;
    if (!claimed)
        return pg__nomem(err);
    for (size_t i = 0; i < n; i++)
        if (owners[i].leaf != PG_NONE)
            claimed[owners[i].leaf] = 1;
    for (size_t i = 0; i < n && n_bare < MAX_BARE; i++)
        if (owners[i].leaf == PG_NONE && !strchr(stored[i].name, '/')) {
            owners[i] = pg__owner_split(stored[i].name);
            owners[i].leaf = unclaimed_leaf(leaves, claimed, owners[i].var);
            n_bare++;
        }
    pg__mem_free(claimed);
    return PG_OK;
}

/* Assigns all weights to the only leaf that can hold any, regardless of names. */
static void give_to(pg__owner *owners, const pg__stored *stored, size_t n, size_t leaf)
{
    for (size_t i = 0; i < n; i++) {
        owners[i] = pg__owner_split(stored[i].name);
        owners[i].leaf = leaf;
    }
}

/* State of pg__place() while it tries one way after the other. */
typedef struct attempt {
    const pg__leaves *leaves;
    const pg__stored *stored;
    size_t n;
    pg__owner *owners;
    pg__fit best; /* the failed way with the fewest faults */
    int has_best;
} attempt;

/* Tests the current owners. *holds: they fit, and *out is set. */
static pg_status try_owners(pg__placing *out, int *holds, attempt *a, pg__placed_by how,
                            pg_err *err)
{
    pg__fit fit = {0};
    const pg_status st = pg__fit_owners(&fit, a->leaves, a->stored, a->owners, a->n, err);
    if (st != PG_OK)
        return st;
    *holds = pg__fit_holds(&fit);
    if (*holds) {
        take(out, &fit, a->n, how);
    } else if (!a->has_best || faults(&fit) < faults(&a->best)) {
        const pg__fit worse = a->best;
        a->best = fit;
        a->has_best = 1;
        fit = worse;
    }
    pg__fit_fini(&fit);
    return PG_OK;
}

/* Tries the readings one after the other, then the order, then the only leaf. */
static pg_status try_all(pg__placing *out, int *holds, attempt *a, const pg__owner_table *table,
                         pg_err *err)
{
    pg_status st = PG_OK;
    const size_t only = only_leaf(a->leaves);
    for (pg__placed_by how = PG_BY_NAME; how <= PG_BY_FLAT_NAME && !*holds; how++)
        if (read_owners(a->owners, table, a->stored, a->n, how) > 0) {
            PG_TRY(give_bare_names(a->owners, a->leaves, a->stored, a->n, err));
            PG_TRY(try_owners(out, holds, a, how, err));
        }
    if (!*holds)
        PG_TRY(pg__place_by_order(out, holds, a->leaves, table, a->stored, a->n, err));
    if (!*holds && only != PG_NONE) {
        give_to(a->owners, a->stored, a->n, only);
        PG_TRY(try_owners(out, holds, a, PG_BY_ORDER, err));
    }
    if (!*holds && !a->has_best) { /* no name has a meaning: report all variables as missing and all
                                      weights as extra */
        read_owners(a->owners, table, a->stored, a->n, PG_BY_NAME);
        PG_TRY(try_owners(out, holds, a, PG_BY_NAME, err));
    }
done:
    return st;
}

pg_status pg__place(pg__placing *out, const pg__leaves *leaves, const pg__stored *stored, size_t n,
                    pg_err *err)
{
    pg_status st = PG_OK;
    pg__owner_table table = {0};
    attempt a = {.leaves = leaves, .stored = stored, .n = n};
    int holds = 0;
    a.owners = pg__mem_array(n, sizeof *a.owners);
    if (!a.owners) {
        st = pg__nomem(err);
        goto done;
    }
    PG_TRY(pg__owner_table_of(&table, leaves, err));
    PG_TRY(try_all(out, &holds, &a, &table, err));
    if (!holds)
        st = pg__fit_explain(&a.best, leaves, stored, n, err);
done:
    pg__fit_fini(&a.best);
    pg__owner_table_fini(&table);
    pg__mem_free(a.owners);
    return st;
}
