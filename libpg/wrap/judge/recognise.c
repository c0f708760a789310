/* recognise.c - the table of recognisers, from recognisers.def, and what is asked of all of them.
 */
#include "wrap/judge/recogniser.h"

const pg__recogniser *const *pg__recognisers(void)
{
    static const pg__recogniser *const table[] = {
#define PG_RECOGNISER(name) &pg__rec_##name,
#include "wrap/judge/recognisers.def"
#undef PG_RECOGNISER
        NULL,
    };
    return table;
}

const char *pg__named_kind(void)
{
    const pg__recogniser *const *r = pg__recognisers();
    while (*r && !(*r)->writes_names)
        r++;
    return *r ? (*r)->name : NULL;
}

int pg__is_slice_name(const char *layer_name)
{
    for (const pg__recogniser *const *r = pg__recognisers(); *r; r++)
        if ((*r)->slice_name && (*r)->slice_name(layer_name))
            return 1;
    return 0;
}

int pg__is_not_one_each(const char *layer_name)
{
    for (const pg__recogniser *const *r = pg__recognisers(); *r; r++)
        if ((*r)->not_one_each && (*r)->slice_name(layer_name))
            return 1;
    return 0;
}
