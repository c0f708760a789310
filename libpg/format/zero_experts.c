/* zero_experts.c - mixtures of experts: sets of ranks hold different experts, which each counts
 * from 0. Rank r is in set r mod n. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/zero.h"

#define EXPERTS    ".deepspeed_moe.experts.deepspeed_experts."
#define N_COMPARED 4096u /* elements, of the beginning */

pg__zero_lane pg__zero_lane_of(const pg__zero *z, size_t g, uint64_t k)
{
    const uint64_t step = z->n_ranks / z->groups[g].parts;
    return (pg__zero_lane){.first = k, .step = step, .n = z->groups[g].parts};
}

/* The number of an expert in a name, where it begins and ends; 0 if there is none. */
static int number_in(const char *name, size_t *from, uint64_t *n, const char **rest)
{
    char *end = NULL;
    const char *at = strstr(name, EXPERTS);
    if (!at)
        return 0;
    at += strlen(EXPERTS);
    if (*at < '0' || *at > '9')
        return 0;
    *n = strtoull(at, &end, 10);
    *from = (size_t)(at - name);
    *rest = end;
    return *n < INT32_MAX && *end == '.';
}

/* How many experts of the layer of `name` a rank has. */
static uint64_t count(const pg__zero *z, const char *name, size_t from)
{
    uint64_t most = 0;
    for (size_t g = 0; g < z->n_groups; g++)
        for (size_t i = 0; i < z->groups[g].n; i++) {
            const char *other = z->groups[g].v[i].name, *rest;
            uint64_t n = 0;
            size_t at = 0;
            if (strncmp(other, name, from) == 0 && number_in(other, &at, &n, &rest) && n >= most)
                most = n + 1;
        }
    return most;
}

pg_status pg__zero_expert_name(const char **out, pg__zero_cut *c, const pg__zero *z,
                               const char *name, uint64_t k, pg_err *err)
{
    size_t from = 0;
    uint64_t n = 0;
    const char *rest = NULL;
    if (!number_in(name, &from, &n, &rest))
        return pg_fail(err, PG_E_UNSUPPORTED,
                       "%s: in a group that only some ranks share, but not an expert",
                       PG_SHOW(name));
    const pg_status st = pg__strs_printf(&c->made, err, "%.*s%" PRIu64 "%s", (int)from, name,
                                         n + k * count(z, name, from), rest);
    if (st == PG_OK)
        *out = c->made.v[c->made.n - 1];
    return st;
}

/* ---- proof ---- */

static uint16_t to_bfloat16(uint32_t bits)
{
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) /* NaN stays one, and quiet */
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

static uint16_t to_float16(uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000u, x = bits & 0x7FFFFFFFu;
    if (x > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u | (x >> 13 & 0x3FFu));
    if (x >= 0x477FF000u) /* 65520 and more */
        return (uint16_t)(sign | 0x7C00u);
    if (x < 0x33000001u) /* half of the smallest number, and less */
        return (uint16_t)sign;
    const uint32_t exponent = x >> 23;
    const uint32_t shift = exponent < 113 ? 126 - exponent : 13;
    const uint32_t whole = exponent < 113 ? (x & 0x7FFFFFu) | 0x800000u : x - (112u << 23);
    const uint32_t rest = whole & ((1u << shift) - 1), half = 1u << (shift - 1);
    uint32_t kept = whole >> shift;
    kept += rest > half || (rest == half && (kept & 1));
    return (uint16_t)(sign | kept);
}

void pg__zero_round(uint16_t *out, const float *in, size_t n, pg_dtype dtype)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &in[i], sizeof bits);
        out[i] = dtype == PG_BF16 ? to_bfloat16(bits) : to_float16(bits);
    }
}

/* The tensor of an expert's own file. */
static pg_store *find(size_t *i, const pg__zero_job *job, const char *name)
{
    for (size_t k = 0; k < job->n_experts; k++)
        for (*i = 0; job->experts[k].s && *i < pg_store_n_weights(job->experts[k].s); ++*i)
            if (strcmp(pg_store_weight(job->experts[k].s, *i)->name, name) == 0)
                return job->experts[k].s;
    return NULL;
}

pg_status pg__zero_check_expert(const pg__zero_cut *c, const pg__zero_job *job, size_t i,
                                pg_err *err)
{
    static const char *const other =
        "%s: the master weights are not those of layer_*_expert_*_model_states.pt";
    float master[N_COMPARED];
    uint16_t small[N_COMPARED];
    unsigned char own[N_COMPARED * sizeof(float)];
    const pg__zero_tensor *t = &c->v[i];
    size_t at = 0;
    pg_store *s = find(&at, job, t->name);
    const pg_weight *w = s ? pg_store_weight(s, at) : NULL;
    const size_t n = t->row.dims[0] < N_COMPARED ? (size_t)t->row.dims[0] : N_COMPARED;
    pg_status st = PG_OK;
    if (!w || w->rank != t->rank || memcmp(w->dims, t->dims, sizeof w->dims) != 0)
        PG_FAIL(PG_E_FORMAT, "%s: no layer_*_expert_*_model_states.pt has it", PG_SHOW(t->name));
    if (w->dtype != PG_F32 && w->dtype != PG_F16 && w->dtype != PG_BF16)
        PG_FAIL(PG_E_UNSUPPORTED, "%s: trained as %s", PG_SHOW(t->name), pg_dtype_name(w->dtype));
    PG_TRY(pg__zero_row_read(c, &t->row, 0, master, n * sizeof *master, err));
    PG_TRY(pg_store_read(s, at, 0, own, n * pg_dtype_bytes(w->dtype), err));
    if (w->dtype != PG_F32)
        pg__zero_round(small, master, n, w->dtype);
    if (memcmp(w->dtype == PG_F32 ? (const void *)master : small, own,
               n * pg_dtype_bytes(w->dtype)) != 0)
        PG_FAIL(PG_E_FORMAT, other, PG_SHOW(t->name));
done:
    return st;
}
