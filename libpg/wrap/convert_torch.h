/* convert_torch.h - PyTorch's layout: what its parts share. */
#ifndef PG_WRAP_CONVERT_TORCH_H
#define PG_WRAP_CONVERT_TORCH_H

#include "wrap/convert.h"

/* Where the inputs of a Dense layer come from a Flatten of (..., channels): PyTorch flattens
 * (channels, ...), so the kernel's rows stand in another order there. */
typedef enum pg__flattened {
    PG_FLAT_SAME,   /* no Flatten before it, or one of what PyTorch flattens alike */
    PG_FLAT_TURNED, /* *channels is known */
    PG_FLAT_UNKNOWN /* something that was not traced is flattened */
} pg__flattened;

pg__flattened pg__torch_flattened(uint64_t *channels, const pg__graph *g, const pg__layer *layer);

#endif
