/* out_of_memory.h - messages for a lack of memory. */
#ifndef PG_TRAIN_STEP_OUT_OF_MEMORY_H
#define PG_TRAIN_STEP_OUT_OF_MEMORY_H

#include "train/step/trainer.h"

/* "3.2 GB" */
typedef struct pg__size_text {
    char s[32];
} pg__size_text;
pg__size_text pg__size_text_of(uint64_t n_bytes);

/* " (layer conv: 3.2 GB)", the layer that needs most memory in any program of t, or "". */
void pg__name_largest_layer(const pg_trainer *t, char *out, size_t n);

/* Returns st, the status of a step of n_rows. If a device had less memory than it reported before,
 * err names the layer that needs most and suggests a smaller batch. */
pg_status pg__explain_out_of_memory(const pg_trainer *t, uint64_t n_rows, pg_status st,
                                    pg_err *err);

#endif
