/* Files that are not the plug-in of this libpg, by what KIND says. */
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

#define NOT_OURS   0 /* has not even the function */
#define OTHER_ABI  1 /* refuses this libpg */
#define OTHER_SIZE 2 /* has other members under the same number */

#if KIND != NOT_OURS
__attribute__((visibility("default"))) const pg__backend *pg_backend_get(uint32_t abi);
const pg__backend *pg_backend_get(uint32_t abi)
{
    static const pg__backend small = {.abi = PG_BACKEND_ABI, .size = sizeof(pg__backend) - 8};
    (void)abi;
    return KIND == OTHER_SIZE ? &small : NULL;
}
#endif
