/* depthwise_kernels.h - depthwise convolutions line by line, compiled for each instruction set.
 *
 * Consecutive cells along the last axis share what they read: several are computed at a time, with
 * their sums (or those of the kernel's gradient) in registers. Instances differ in the kernel's
 * width and the step along that axis; everything else is determined line by line. */
#ifndef PG_BACKEND_CPU_DEPTHWISE_KERNELS_H
#define PG_BACKEND_CPU_DEPTHWISE_KERNELS_H

#include "backend/cpu/conv_kernels.h"

struct pg__depthwise_lines {
    size_t vec; /* floats in a vector: the least number of channels */
    /* The two below and their scratch are those of pg__conv_kernels. Kernels 3, 5 or 7 cells wide,
     * steps of 1 or 2, no dilation (all along the last axis). */
    size_t (*bytes)(const pg__depthwise *d, int dw);
    void (*depthwise)(const pg__depthwise *d, const float *from, const float *w, const float *bias,
                      float *to, void *scratch);
    void (*depthwise_dw)(const pg__depthwise *d, const float *from, const float *dy, float *dw,
                         void *scratch);
};

#endif
