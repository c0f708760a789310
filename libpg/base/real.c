/* real.c - numbers as text. The C library computes correct digits, but does not know how many are
 * needed, and uses the locale's decimal point. So only its digits and exponent are taken. */
#include "base/real.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bsd.h"

#define MOST_DIGITS 17 /* that a double may need */

/* A number's decimal digits, d.ddd times ten to the exponent. */
typedef struct decimal {
    char digits[MOST_DIGITS + 1];
    int n, exponent;
} decimal;

/* "d.dddde-05" with any decimal point. */
static decimal take_digits(const char *text)
{
    decimal d = {.n = 0};
    const char *e = strchr(text, 'e');
    for (const char *c = text; c < e && d.n < MOST_DIGITS; c++)
        if (*c >= '0' && *c <= '9')
            d.digits[d.n++] = *c;
    d.exponent = atoi(e + 1);
    while (d.n > 1 && d.digits[d.n - 1] == '0')
        d.n--;
    d.digits[d.n] = '\0';
    return d;
}

/* v is finite and not negative. */
static decimal shortest(double v, int is_float)
{
    char text[48];
    for (int digits = 0;; digits++) {
        (void)snprintf(text, sizeof text, "%.*e", digits, v);
        const int same = is_float ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v;
        if (same || digits == MOST_DIGITS - 1)
            return take_digits(text);
    }
}

static void write_out(char out[32], const decimal *d, int scientific, const char *sign)
{
    char text[MOST_DIGITS + 24];
    if (scientific)
        (void)snprintf(text, sizeof text, "%c%s%se%c%02d", d->digits[0], d->n > 1 ? "." : "",
                       d->digits + 1, d->exponent < 0 ? '-' : '+', abs(d->exponent));
    else if (d->exponent < 0)
        (void)snprintf(text, sizeof text, "0.%.*s%s", -d->exponent - 1, "000", d->digits);
    else if (d->n > d->exponent + 1)
        (void)snprintf(text, sizeof text, "%.*s.%s", d->exponent + 1, d->digits,
                       d->digits + d->exponent + 1);
    else
        (void)snprintf(text, sizeof text, "%s%.*s.0", d->digits, d->exponent + 1 - d->n,
                       "0000000000000000");
    (void)snprintf(out, 32, "%s%.30s", sign, text);
}

typedef enum form { DOUBLE, FLOAT, NUMPY } form;

static pg__real text_of(double v, form as)
{
    pg__real r = {{0}};
    const char *sign = signbit(v) ? "-" : "";
    if (isnan(v)) {
        (void)snprintf(r.s, sizeof r.s, "nan");
    } else if (isinf(v)) {
        (void)snprintf(r.s, sizeof r.s, "%sinf", sign);
    } else {
        const double size = fabs(v);
        const decimal d = shortest(size, as != DOUBLE);
        /* Python decides by the digits, NumPy by the number. */
        const int scientific = as == NUMPY ? size > 0 && (size < 1e-4 || size >= 1e16)
                                           : d.exponent < -4 || d.exponent >= 16;
        write_out(r.s, &d, scientific, sign);
    }
    return r;
}

pg__real pg__real_of(double v)
{
    return text_of(v, DOUBLE);
}

pg__real pg__real_of_float(float v)
{
    return text_of((double)v, FLOAT);
}

pg__real pg__real_as_numpy(float v)
{
    return text_of((double)v, NUMPY);
}

int pg__real_read(double *out, const char *s, size_t n)
{
    char text[64], *end = NULL;
    if (n == 0 || n >= sizeof text)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!strchr("0123456789.eE+-", s[i]) || s[i] == '\0')
            return 0;
    memcpy(text, s, n);
    text[n] = '\0';
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain)
        return 0;
    const double v = strtod_l(text, &end, plain);
    freelocale(plain);
    if (*end != '\0' || end == text)
        return 0;
    *out = v;
    return 1;
}
