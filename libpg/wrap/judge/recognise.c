/* recognise.c - the table of recognisers, from recognisers.def. */
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
