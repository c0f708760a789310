/* spec.c - Python's format(value, spec) for int and float, after CPython's formatter_unicode.c: a
 * number is a sign, a prefix, leading digits (possibly grouped) and a rest; zeros that fill are
 * grouped too. Digits come from the C library, in any locale. */
#include "base/spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/real.h"
#include "base/try.h"

#define MOST 200 /* of width and precision */

typedef struct spec {
    char fill[5]; /* one character, UTF-8 */
    char align, sign, group, type;
    int alternate;
    int width, precision; /* -1: not given */
} spec;

/* ---- reading ---- */

static int is_align(const char *s, const char *end)
{
    return s < end && (*s == '<' || *s == '>' || *s == '=' || *s == '^');
}

static const char *read_align(spec *f, const char *s, const char *end)
{
    uint32_t code = 0;
    const size_t n = pg__utf8_at((const unsigned char *)s, (size_t)(end - s), &code);
    int filled = 0;
    if (n > 0 && is_align(s + n, end)) {
        memcpy(f->fill, s, n);
        f->fill[n] = 0;
        filled = 1;
        s += n;
    }
    if (is_align(s, end))
        f->align = *s++;
    if (s < end && (*s == '+' || *s == '-' || *s == ' '))
        f->sign = *s++;
    if (s < end && *s == '#') {
        f->alternate = 1;
        s++;
    }
    if (!filled && s < end && *s == '0') {
        strcpy(f->fill, "0");
        f->align = f->align ? f->align : '=';
        s++;
    }
    return s;
}

/* Reads digits into *out, which is unchanged if there are none. */
static pg_status read_number(int *out, const char **s, const char *end, pg_err *err)
{
    int v = 0;
    if (*s == end || **s < '0' || **s > '9')
        return PG_OK;
    for (; *s < end && **s >= '0' && **s <= '9'; ++*s) {
        v = v * 10 + (**s - '0');
        if (v > MOST)
            return pg_fail(err, PG_E_ARG, "more than %d characters", MOST);
    }
    *out = v;
    return PG_OK;
}

static pg_status read_spec(spec *f, const char *s, size_t n, pg_err *err)
{
    const char *end = s + n;
    pg_status st = PG_OK;
    *f = (spec){.fill = " ", .sign = '-', .width = -1, .precision = -1};
    s = read_align(f, s, end);
    PG_TRY(read_number(&f->width, &s, end, err));
    if (s < end && (*s == ',' || *s == '_'))
        f->group = *s++;
    if (s < end && (*s == ',' || *s == '_'))
        PG_FAIL(PG_E_ARG, "two kinds of groups");
    if (s < end && *s == '.') {
        s++;
        PG_TRY(read_number(&f->precision, &s, end, err));
        if (f->precision < 0)
            PG_FAIL(PG_E_ARG, "a point without a precision after it");
    }
    if (s < end)
        f->type = *s++;
    if (s < end)
        PG_FAIL(PG_E_ARG, "no format specification");
    f->align = f->align ? f->align : '>';
done:
    return st;
}

static pg_status check_spec(const spec *f, int is_int, pg_err *err)
{
    const char *types = is_int ? "bdoxXneEfFgG%" : "neEfFgG%";
    const int whole = is_int && (!f->type || strchr("bdoxXn", f->type));
    if (f->type && !strchr(types, f->type))
        return pg_fail(err, PG_E_ARG, "no type '%c' for %s", f->type,
                       is_int ? "an int" : "a float");
    if (whole && f->precision >= 0)
        return pg_fail(err, PG_E_ARG, "an int has no precision");
    if (f->group && f->type && strchr(f->group == ',' ? "nboxX" : "n", f->type))
        return pg_fail(err, PG_E_ARG, "'%c' grouping is not allowed with '%c'", f->group, f->type);
    return PG_OK;
}

/* ---- digits ---- */

typedef struct digits {
    int negative;
    char prefix[3];
    char s[512]; /* leading digits and the rest */
    size_t n_leading;
} digits;

/* The locale's point becomes a point. */
static void plain_point(char *s)
{
    char *to = s;
    for (const char *from = s; *from != '\0'; from++) {
        const int own = (*from >= '0' && *from <= '9') || strchr("eE+-", *from) != NULL;
        if (own)
            *to++ = *from;
        else if (to == s || to[-1] != '.')
            *to++ = '.';
    }
    *to = 0;
}

/* Removes zeros at the end of the part before the exponent, but leaves `least` digits after the
 * point. */
static void strip_zeros(char *s, size_t least)
{
    char *point = strchr(s, '.'), *e = strpbrk(s, "eE");
    char *end = e ? e : s + strlen(s), *to = end;
    if (!point)
        return;
    while (to > point + 1 + least && to[-1] == '0')
        to--;
    if (to == point + 1)
        to--;
    memmove(to, end, strlen(end) + 1);
}

/* Without a type: as 'g', but with at least one digit after the point. */
static void like_g(char *s, size_t cap, const spec *f, double v)
{
    const int p = f->precision > 0 ? f->precision : 1;
    (void)snprintf(s, cap, "%.*e", p - 1, v);
    const int exponent = atoi(strchr(s, 'e') + 1), scientific = exponent < -4 || exponent >= p - 1;
    if (!scientific)
        (void)snprintf(s, cap, "%.*f", p - 1 - exponent, v);
    plain_point(s);
    if (!f->alternate)
        strip_zeros(s, scientific ? 0 : 1);
}

static void by_type(char *s, size_t cap, const spec *f, char type, double v)
{
    const int alt = f->alternate, p = f->precision < 0 ? 6 : f->precision;
    switch (type) {
    case 'e': (void)snprintf(s, cap, alt ? "%#.*e" : "%.*e", p, v); break;
    case 'E': (void)snprintf(s, cap, alt ? "%#.*E" : "%.*E", p, v); break;
    case 'g': (void)snprintf(s, cap, alt ? "%#.*g" : "%.*g", p, v); break;
    case 'G': (void)snprintf(s, cap, alt ? "%#.*G" : "%.*G", p, v); break;
    default: (void)snprintf(s, cap, alt ? "%#.*f" : "%.*f", p, v); break;
    }
    plain_point(s);
}

/* Adds the point that '#' asks for. */
static void force_point(char *s)
{
    char *e = strchr(s, 'e');
    if (!e || strchr(s, '.'))
        return;
    memmove(e + 1, e, strlen(e) + 1);
    *e = '.';
}

static void real_digits(digits *d, const spec *f, pg__spec_value value)
{
    const char type = f->type == 'n' ? 'g' : f->type == '%' ? 'f' : f->type;
    const double v = fabs(f->type == '%' ? value.v * 100 : value.v);
    const int upper = f->type == 'E' || f->type == 'F' || f->type == 'G';
    d->negative = !isnan(v) && signbit(value.v) != 0;
    if (!isfinite(v)) {
        strcpy(d->s, isnan(v) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"));
    } else if (type == 0 && f->precision < 0) {
        strcpy(d->s, value.kind == PG_SPEC_FLOAT32 ? PG_REAL32(v) : PG_REAL(v));
        if (f->alternate)
            force_point(d->s);
    } else if (type == 0) {
        like_g(d->s, sizeof d->s, f, v);
    } else {
        by_type(d->s, sizeof d->s, f, type, v);
    }
    d->n_leading = strspn(d->s, "0123456789");
    if (f->type == '%')
        strcat(d->s, "%");
}

static void int_digits(digits *d, const spec *f, double v)
{
    const uint64_t u = (uint64_t)fabs(v);
    d->negative = v < 0;
    if (f->type == 'b') {
        int top = 63;
        while (top > 0 && !(u >> top & 1))
            top--;
        for (int k = top; k >= 0; k--)
            d->s[top - k] = (char)('0' + (u >> k & 1));
    } else if (f->type == 'o') {
        (void)snprintf(d->s, sizeof d->s, "%" PRIo64, u);
    } else if (f->type == 'x' || f->type == 'X') {
        (void)snprintf(d->s, sizeof d->s, f->type == 'x' ? "%" PRIx64 : "%" PRIX64, u);
    } else {
        (void)snprintf(d->s, sizeof d->s, "%" PRIu64, u);
    }
    if (f->alternate && f->type && strchr("boxX", f->type))
        (void)snprintf(d->prefix, sizeof d->prefix, "0%c", f->type);
    d->n_leading = strlen(d->s);
}

/* ---- putting together ---- */

/* Writes digits from right to left in groups, filled with zeros to at least `width` characters.
 * Returns where they begin in the buffer that ends at `end`. */
static char *put_groups(char *end, const char *s, size_t n, const spec *f, int width)
{
    const int hex = f->type && strchr("boxX", f->type) != NULL;
    const size_t size = f->group ? (hex ? 4 : 3) : SIZE_MAX;
    size_t in_group = 0;
    do {
        if (in_group == size) {
            *--end = f->group;
            in_group = 0;
            width--;
        }
        *--end = n > 0 ? s[--n] : '0';
        in_group++;
        width--;
    } while (n > 0 || width > 0);
    return end;
}

static pg_status put_fill(pg__str *out, const spec *f, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    while (n-- > 0 && st == PG_OK)
        st = pg__str_puts(out, f->fill, err);
    return st;
}

static pg_status put(pg__str *out, const spec *f, const digits *d, pg_err *err)
{
    char grouped[1024], *end = grouped + sizeof grouped - 1, *leading = end;
    const char *rest = d->s + d->n_leading;
    const char sign[2] = {d->negative ? '-' : f->sign == '-' ? (char)0 : f->sign, 0};
    const size_t n_other = strlen(sign) + strlen(d->prefix) + strlen(rest);
    const int fills = f->align == '=' && strcmp(f->fill, "0") == 0;
    const int room = fills ? f->width - (int)n_other : 0;
    pg_status st = PG_OK;
    *end = 0;
    if (d->n_leading > 0)
        leading = put_groups(end, d->s, d->n_leading, f, room);
    const size_t n = n_other + (size_t)(end - leading);
    const size_t pad = f->width > 0 && (size_t)f->width > n ? (size_t)f->width - n : 0;
    const size_t before = f->align == '>' ? pad : f->align == '^' ? pad / 2 : 0;
    const size_t inside = f->align == '=' ? pad : 0;
    PG_TRY(put_fill(out, f, before, err));
    PG_TRY(pg__str_puts(out, sign, err));
    PG_TRY(pg__str_puts(out, d->prefix, err));
    PG_TRY(put_fill(out, f, inside, err));
    PG_TRY(pg__str_puts(out, leading, err));
    PG_TRY(pg__str_puts(out, rest, err));
    PG_TRY(put_fill(out, f, pad - before - inside, err));
done:
    return st;
}

pg_status pg__spec_format(pg__str *out, const char *s, size_t n, pg__spec_value value, pg_err *err)
{
    digits d = {.negative = 0};
    spec f;
    const int is_int = value.kind == PG_SPEC_INT;
    pg_status st = PG_OK;
    PG_TRY(read_spec(&f, s, n, err));
    PG_TRY(check_spec(&f, is_int, err));
    if (is_int && (!f.type || strchr("bdoxXn", f.type)))
        int_digits(&d, &f, value.v);
    else
        real_digits(&d, &f, value);
    PG_TRY(put(out, &f, &d, err));
done:
    return st;
}
