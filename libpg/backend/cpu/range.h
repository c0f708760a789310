/* range.h - the range to which the numbers of a result are limited as they are made: most
 * activations after a convolution do just that (ReLU, ReLU6). */
#ifndef PG_BACKEND_CPU_RANGE_H
#define PG_BACKEND_CPU_RANGE_H

typedef struct pg__range {
    int is_used; /* 0: they are not limited */
    float low, high;
} pg__range;

#endif
