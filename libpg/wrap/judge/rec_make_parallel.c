/* rec_make_parallel.c - recognises make_parallel() of keras-extras and its many copies: Lambda
 * layers around get_slice with {"idx": part, "parts": replicas}. One widespread copy misspells
 * "parts". The merges keep their default names (merge_1, concatenate_1). */
#include "wrap/judge/recogniser.h"

static pg__saying says(const pg__slices *s)
{
    static const char *const counts[] = {"parts", "partss"};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int agree = 0;
        if (pg__slices_have(s, "idx", counts[k], &agree))
            return agree ? PG_SAYS_CERTAINLY : PG_SAYS_OTHERWISE;
    }
    return PG_SAYS_NOTHING;
}

const pg__recogniser pg__rec_make_parallel = {
    .name = "make_parallel",
    .doc = "keras-extras make_parallel and copies: one Lambda {idx, parts} per replica and input",
    .slices = says,
};
