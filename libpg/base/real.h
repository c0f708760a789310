/* real.h - numbers as text, independent of the program's locale. */
#ifndef PG_BASE_REAL_H
#define PG_BASE_REAL_H

#include <stddef.h>

/* The shortest text that reads back as the same number, in the form of Python's str(): 0.1, 1.0,
 * 1e-05, 1e+16, nan, inf. %s with PG_REAL(v). */
typedef struct pg__real {
    char s[32];
} pg__real;
pg__real pg__real_of(double v);
pg__real pg__real_of_float(float v); /* shortest for a float32 */
#define PG_REAL(v)   (pg__real_of(v).s)
#define PG_REAL32(v) (pg__real_of_float((float)(v)).s)

/* A float32 as NumPy's str() writes it: with an exponent below 0.0001, which includes the float32
 * nearest to 0.0001. */
pg__real pg__real_as_numpy(float v);

/* 1 if the n characters at s are a number as C and Python write it ("-.5e3"; not "nan", "inf" or
 * hexadecimal); *out is then set. */
int pg__real_read(double *out, const char *s, size_t n);

#endif
