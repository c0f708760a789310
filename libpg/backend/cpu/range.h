/* range.h - what the numbers of a result are kept within as they are made: most activations that
 * follow a convolution are that (ReLU, ReLU6). */
#ifndef PG_BACKEND_CPU_RANGE_H
#define PG_BACKEND_CPU_RANGE_H

typedef struct pg__range {
    int is_used; /* 0: they stay what they are */
    float low, high;
} pg__range;

#endif
