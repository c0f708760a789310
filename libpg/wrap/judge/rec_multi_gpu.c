/* rec_multi_gpu.c - keras.utils.multi_gpu_model() of Keras 2.0.9 - 2.3.1 and tf.keras 1.8 - 2.3,
 * and its later rebuilds: Lambda layers whose arguments are {"i": part, "parts": replicas}.
 *
 *     input_1  lambda_1  lambda_2  model_1[conv/kernel:0 ... dense/kernel:0]  dense
 *
 * Later releases renamed nothing, so the two keys are the signature; gpus=[1, 3], cpu_merge and
 * device names leave no trace. */
#include <string.h>
#include <strings.h>

#include "wrap/judge/recogniser.h"

static pg__saying says(const pg__slices *s)
{
    int agree = 0;
    if (!pg__slices_have(s, "i", "parts", &agree))
        return PG_SAYS_NOTHING;
    return agree ? PG_SAYS_CERTAINLY : PG_SAYS_OTHERWISE;
}

static int slice_name(const char *layer_name)
{
    return strncasecmp(layer_name, "lambda", strlen("lambda")) == 0;
}

const pg__recogniser pg__rec_multi_gpu = {
    .name = "multi_gpu_model",
    .doc = "keras.utils.multi_gpu_model: one Lambda {i, parts} per replica and input",
    .slices = says,
    .slice_name = slice_name,
    .writes_names = 1,
};
