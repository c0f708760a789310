/* wino_math.h - for wino_kernels.c: its matrix products, and its transforms of single rows. */
#ifndef PG_BACKEND_CPU_WINO_MATH_H
#define PG_BACKEND_CPU_WINO_MATH_H

#include "backend/cpu/vec.h"
#include "backend/cpu/wino.h"

#define CELLS PG_WINO_CELLS

#if PG_VEC == 16
#define MR 14 /* with two vectors each: what fits into the registers */
#elif PG_VEC == 8
#define MR 6
#else
#define MR 6
#endif
#define PANEL (2 * PG_VEC)

typedef pg__vec vec;

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- matrix products ---- */

/* c[m x PANEL] (+)= a b over k: a at [i * a_row + k * a_col], b at [k * b_row]. m is a constant. */
PG_INLINE void product(size_t m, size_t k, const float *a, size_t a_row, size_t a_col,
                       const float *b, size_t b_row, float *c, size_t c_row, int add)
{
    vec lo[MR], hi[MR];
    PG_UNROLL for (size_t i = 0; i < m; i++)
    {
        lo[i] = add ? pg__load(c + i * c_row) : pg__splat(0);
        hi[i] = add ? pg__load(c + i * c_row + PG_VEC) : pg__splat(0);
    }
    for (; k > 0; k--, a += a_col, b += b_row) {
        const vec b0 = pg__load(b), b1 = pg__load(b + PG_VEC);
        PG_UNROLL for (size_t i = 0; i < m; i++)
        {
            const vec x = pg__splat(a[i * a_row]);
            lo[i] = pg__mul_add(x, b0, lo[i]);
            hi[i] = pg__mul_add(x, b1, hi[i]);
        }
    }
    PG_UNROLL for (size_t i = 0; i < m; i++)
    {
        pg__store(c + i * c_row, lo[i]);
        pg__store(c + i * c_row + PG_VEC, hi[i]);
    }
}

typedef void (*product_fn)(size_t k, const float *a, size_t a_row, size_t a_col, const float *b,
                           size_t b_row, float *c, size_t c_row, int add);

#define PRODUCT(m)                                                                                \
    static void product_##m(size_t k, const float *a, size_t a_row, size_t a_col, const float *b, \
                            size_t b_row, float *c, size_t c_row, int add)                        \
    {                                                                                             \
        product(m, k, a, a_row, a_col, b, b_row, c, c_row, add);                                  \
    }
PRODUCT(1)
PRODUCT(2)
PRODUCT(3)
PRODUCT(4)
PRODUCT(5)
PRODUCT(6)
#if MR > 6
PRODUCT(7)
PRODUCT(8)
PRODUCT(9)
PRODUCT(10)
PRODUCT(11)
PRODUCT(12)
PRODUCT(13)
PRODUCT(14)
#endif

static const product_fn products[MR + 1] = {
    NULL,      product_1, product_2, product_3,  product_4,  product_5,  product_6,
#if MR > 6
    product_7, product_8, product_9, product_10, product_11, product_12, product_13,
    product_14
#endif
};

/* ---- transforms of six, four or three numbers ---- */

/* The polynomials are evaluated at 0, +-P, +-Q and infinity. Of the pairs that floats hold exactly,
 * these have the smallest errors: a third to a half of those of +-1, +-2, which Lavin and Gray
 * use. */
#define P    (11 / 16.0f)
#define Q    (3 / 2.0f)
#define P2   (P * P)
#define Q2   (Q * Q)
#define AT_0 (1 / (P2 * Q2))
#define AT_P (1 / (2 * P2 * (P2 - Q2)))
#define AT_Q (1 / (2 * Q2 * (Q2 - P2)))

PG_INLINE void operand_6(vec o[6], const vec v[6])
{
    const vec a = v[4] - Q2 * v[2], b = P * (v[3] - Q2 * v[1]);
    const vec c = v[4] - P2 * v[2], d = Q * (v[3] - P2 * v[1]);
    o[0] = P2 * Q2 * v[0] - (P2 + Q2) * v[2] + v[4];
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + d;
    o[4] = c - d;
    o[5] = P2 * Q2 * v[1] - (P2 + Q2) * v[3] + v[5];
}

PG_INLINE void result_4(vec o[4], const vec v[6])
{
    const vec a = v[1] + v[2], b = P * (v[1] - v[2]), c = v[3] + v[4], d = Q * (v[3] - v[4]);
    o[0] = v[0] + a + c;
    o[1] = b + d;
    o[2] = P2 * a + Q2 * c;
    o[3] = P2 * b + Q2 * d + v[5];
}

/* The transpose of result_4. */
PG_INLINE void gradient_6(vec o[6], const vec v[4])
{
    const vec a = v[0] + P2 * v[2], b = P * (v[1] + P2 * v[3]);
    const vec c = v[0] + Q2 * v[2], d = Q * (v[1] + Q2 * v[3]);
    o[0] = v[0];
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + d;
    o[4] = c - d;
    o[5] = v[3];
}

PG_INLINE void kernel_6(vec o[6], const vec v[3])
{
    const vec a = (v[0] + P2 * v[2]) * AT_P, b = v[1] * (P * AT_P);
    const vec c = (v[0] + Q2 * v[2]) * AT_Q, d = v[1] * (Q * AT_Q);
    o[0] = v[0] * AT_0;
    o[1] = a + b;
    o[2] = a - b;
    o[3] = c + d;
    o[4] = c - d;
    o[5] = v[2];
}

/* The transpose of kernel_6. */
PG_INLINE void kernel_3(vec o[3], const vec v[6])
{
    const vec a = (v[1] + v[2]) * AT_P, b = (v[1] - v[2]) * (P * AT_P);
    const vec c = (v[3] + v[4]) * AT_Q, d = (v[3] - v[4]) * (Q * AT_Q);
    o[0] = v[0] * AT_0 + a + c;
    o[1] = b + d;
    o[2] = P2 * a + Q2 * c + v[5];
}

#endif
