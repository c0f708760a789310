/* scaling_text.c - parses the devices of a plan: "hosts=16,gpus=8,link=100Gbit". */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "base/str.h"
#include "base/try.h"
#include "pg/train.h"

#define MOST ((size_t)1 << 20) /* of any count */

typedef enum kind { COUNT, RATE, TIME, FACTOR, FLOPS, SCALE } kind;

typedef struct key {
    const char *name;
    kind kind;
    size_t at; /* offset of its member in pg_plan_opts */
} key;

#define AT(member) offsetof(pg_plan_opts, member)
static const key keys[] = {
    {"hosts", COUNT, AT(hosts)},
    {"gpus", COUNT, AT(per_host)},
    {"cpus", COUNT, AT(per_host)},
    {"ranks", COUNT, AT(per_host)},
    {"cores", COUNT, AT(cores)},
    {"batch", COUNT, AT(batch_size)},
    {"scale", SCALE, AT(weak)},
    {"link", RATE, AT(bandwidth)},
    {"latency", TIME, AT(latency)},
    {"inner", RATE, AT(inner_bandwidth)},
    {"inner-latency", TIME, AT(inner_latency)},
    {"speedup", FACTOR, AT(speedup)},
    {"flops", FLOPS, AT(flops)},
};
static const char measured[] = "measure"; /* in place of the rate of `link` */
enum { N_KEYS = sizeof keys / sizeof *keys };

typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit rates[] = {
    {"bit", 1e0 / 8}, {"kbit", 1e3 / 8}, {"Mbit", 1e6 / 8}, {"Gbit", 1e9 / 8},  {"Tbit", 1e12 / 8},
    {"B", 1},         {"kB", 1e3},       {"KB", 1e3},       {"MB", 1e6},        {"GB", 1e9},
    {"TB", 1e12},     {"KiB", 1024},     {"MiB", 1048576},  {"GiB", 1073741824}};
static const unit times[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
static const unit flops[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};

#define PG_UNIT_OF(list, text, len) unit_of(list, sizeof(list) / sizeof *(list), text, len)

/* "Gb" is not accepted: it could mean bits or bytes. 0: no such unit. */
static double unit_of(const unit *list, size_t n, const char *text, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i].name) == len && strncmp(list[i].name, text, len) == 0)
            return list[i].factor;
    return 0;
}

static size_t without(const char *text, size_t len, const char *end)
{
    const size_t n = strlen(end);
    return len > n && strncasecmp(text + len - n, end, n) == 0 ? len - n : len;
}

/* A number above 0 with its unit; 0: malformed. */
static double number(kind what, const char *text, size_t len)
{
    char copy[64];
    char *end = NULL;
    if (len == 0 || len >= sizeof copy || !isdigit((unsigned char)*text))
        return 0;
    memcpy(copy, text, len);
    copy[len] = '\0';
    if (strncasecmp(copy, "0x", 2) == 0)
        return 0;
    const double v = strtod(copy, &end);
    const size_t left = len - (size_t)(end - copy);
    double factor = 0;
    if (what == RATE)
        factor = PG_UNIT_OF(rates, end, without(end, left, "/s"));
    else if (what == TIME)
        factor = PG_UNIT_OF(times, end, left);
    else if (what == FLOPS)
        factor = PG_UNIT_OF(flops, end, without(end, without(end, left, "/s"), "flops"));
    else
        factor = left == 0;
    return isfinite(v * factor) ? v * factor : 0;
}

static const char *const wants[] = {
    [COUNT] = "a whole number from 1 to 1048576",
    [RATE] = "a number with bit/s or bytes/s: 100Gbit, 12.5GB",
    [TIME] = "a number with s, ms, us or ns: 5us",
    [FACTOR] = "a number from 1e-6 to 1e9: 2.5",
    [FLOPS] = "a number of operations per second: 60T",
    [SCALE] = "strong or weak",
};

static pg_status set(pg_plan_opts *o, const key *k, const char *text, size_t len, pg_err *err)
{
    void *at = (char *)o + k->at;
    const double v = k->kind == SCALE ? 0 : number(k->kind, text, len);
    int fits = v > 0;
    switch (k->kind) {
    case COUNT:
        fits = fits && v <= MOST && v == floor(v);
        *(size_t *)at = fits ? (size_t)v : 0;
        break;
    case SCALE:
        *(int *)at = len == 4 && strncmp(text, "weak", len) == 0;
        fits = *(int *)at || (len == 6 && strncmp(text, "strong", len) == 0);
        break;
    case FACTOR:
        fits = fits && v >= 1e-6 && v <= 1e9;
        *(double *)at = v;
        break;
    case RATE:
    case TIME:
    case FLOPS: *(double *)at = v; break;
    }
    if (fits)
        return PG_OK;
    char shown[80];
    return pg_fail(err, PG_E_ARG, "%s=%s: write %s", k->name,
                   pg__printable(shown, sizeof shown, text, len), wants[k->kind]);
}

static pg_status unknown(const char *text, size_t len, pg_err *err)
{
    char name[80];
    const char *names[N_KEYS];
    for (size_t i = 0; i < N_KEYS; i++)
        names[i] = keys[i].name;
    (void)pg__printable(name, sizeof name, text, len);
    const char *near = pg__nearest(name, names, N_KEYS);
    (void)pg_fail(err, PG_E_ARG, "%s: not a key of a plan%s%s%s", name,
                  near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return pg__list_known(err, PG_E_ARG, names, N_KEYS);
}

/* Refuses two keys with the same meaning, like a key given twice. */
static pg_status check_alone(const int given[N_KEYS], size_t k, pg_err *err)
{
    for (size_t i = 0; i < N_KEYS; i++)
        if (given[i] && keys[i].at == keys[k].at)
            return i == k ? pg_fail(err, PG_E_ARG, "%s: given twice", keys[k].name)
                          : pg_fail(err, PG_E_ARG, "%s and %s: give one of them", keys[i].name,
                                    keys[k].name);
    return PG_OK;
}

pg_status pg_plan_read(pg_plan_opts *out, const char *text, pg_err *err)
{
    pg_plan_opts o = {0};
    int given[N_KEYS] = {0};
    pg_status st = PG_OK;
    for (const char *at = text; *at;) {
        const size_t len = strcspn(at, ","), name = strcspn(at, "=,");
        size_t k = 0;
        while (k < N_KEYS && (strlen(keys[k].name) != name || strncmp(keys[k].name, at, name) != 0))
            k++;
        if (k == N_KEYS)
            PG_TRY(unknown(at, name, err));
        if (name == len)
            PG_FAIL(PG_E_ARG, "%s: write %s=VALUE", keys[k].name, keys[k].name);
        PG_TRY(check_alone(given, k, err));
        const int is_link = keys[k].at == AT(bandwidth);
        if (is_link && len - name - 1 == strlen(measured) &&
            strncmp(at + name + 1, measured, strlen(measured)) == 0)
            o.measure = 1;
        else
            PG_TRY(set(&o, &keys[k], at + name + 1, len - name - 1, err));
        given[k] = 1;
        o.gpus |= strcmp(keys[k].name, "gpus") == 0;
        at += len + (at[len] == ',');
    }
    if (o.speedup > 0 && o.flops > 0)
        PG_FAIL(PG_E_ARG, "speedup and flops: give one of them");
    *out = o;
done:
    return st;
}
