/* rec_slice_batch.c - the family of to_multi_gpu() / slice_batch(): Lambda layers with {"n_gpus":
 * replicas, "part": part} on an Input of the wrapper's own, and the class SliceBatch of
 * stateful_multi_gpu, whose config holds a name only. avolkov1's ModelMGPU names its slices
 * stage_cpuSliceIn<i>_Dev<g>, with {"ngpus", "part"}. */
#include <string.h>
#include <strings.h>

#include "wrap/judge/recogniser.h"

static int all_of_class(const pg__slices *s, const char *class_name)
{
    for (size_t i = 0; i < s->n_inputs * s->n_replicas; i++)
        if (strcmp(s->layers[i]->class_name, class_name) != 0)
            return 0;
    return s->n_inputs > 0;
}

static pg__saying says(const pg__slices *s)
{
    static const char *const counts[] = {"n_gpus", "n_gpu", "ngpus"};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int agree = 0;
        if (pg__slices_have(s, "part", counts[k], &agree))
            return agree ? PG_SAYS_CERTAINLY : PG_SAYS_OTHERWISE;
    }
    if (all_of_class(s, "SliceBatch"))
        return pg__slices_play_roles(s) ? PG_SAYS_CERTAINLY : PG_SAYS_LIKELY;
    return PG_SAYS_NOTHING;
}

static int slice_name(const char *layer_name)
{
    static const char *const starts[] = {"slice", "stage_cpuslice"};
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
        if (strncasecmp(layer_name, starts[k], strlen(starts[k])) == 0)
            return 1;
    return 0;
}

const pg__recogniser pg__rec_slice_batch = {
    .name = "slice_batch",
    .doc = "to_multi_gpu, slice_batch, SliceBatch: slices {part, n_gpus} of a new input",
    .slices = says,
    .slice_name = slice_name,
};
