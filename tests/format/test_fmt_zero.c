#include "format/modern.h"

static void puts_every_checkpoint_together(void **state)
{
    (void)state;
    static const char *const names[] = {"zero2-groups", "zero3", "zero3-tied"};
    static const char *const ends[] = {"", "/", "/global_step2",
                                       "/global_step2/zero_pp_rank_1_mp_rank_00_optim_states.pt"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
            char checkpoint[128], expected[128];
            snprintf(checkpoint, sizeof checkpoint, "%s/ckpt%s", names[i], ends[k]);
            snprintf(expected, sizeof expected, "%s/expected.safetensors", names[i]);
            modern_check(checkpoint, expected, "");
        }
}

PG_TEST_MAIN(cmocka_unit_test(puts_every_checkpoint_together))
