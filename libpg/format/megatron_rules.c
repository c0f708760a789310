/* megatron_rules.c - which tensor of Megatron-LM is cut over the tensor parallel ranks in which
 * way, and what the user says about others. The names are those of megatron/core and, before that,
 * of megatron/legacy; the cuts those of their parallel layers and of tools/checkpoint. */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/megatron.h"

#define MAX_HEADS 65536u
#define MAX_WORDS 0x7fffffffu

typedef struct rule {
    const char *pattern;
    pg__megatron_cut cut;
} known_rule;

/* Asked in this order. */
static const known_rule table[] = {
    /* Mamba: its fused tensors are cut in sections, and its norm is cut */
    {"*.mixer.in_proj.layer_norm_*", PG_MEGATRON_SAME},
    {"*.mixer.*", PG_MEGATRON_UNKNOWN},
    /* both */
    {"*layernorm.weight", PG_MEGATRON_SAME},
    {"*layernorm.bias", PG_MEGATRON_SAME},
    {"*layer_norm.weight", PG_MEGATRON_SAME},
    {"*layer_norm.bias", PG_MEGATRON_SAME},
    {"*word_embeddings.weight", PG_MEGATRON_ROWS},
    {"*position_embeddings.weight", PG_MEGATRON_SAME},
    {"*tokentype_embeddings.weight", PG_MEGATRON_SAME},
    {"*output_layer.weight", PG_MEGATRON_ROWS},
    {"*output_layer.bias", PG_MEGATRON_ROWS},
    {"*rotary_pos_emb.inv_freq", PG_MEGATRON_SAME},
    {"lm_head.bias", PG_MEGATRON_ROWS},
    {"lm_head.dense.*", PG_MEGATRON_SAME},
    {"*pooler.dense.*", PG_MEGATRON_SAME},
    {"*binary_head.*", PG_MEGATRON_SAME},
    {"*router.weight", PG_MEGATRON_SAME},
    {"*router.bias", PG_MEGATRON_SAME},
    {"*router.expert_bias", PG_MEGATRON_SAME},
    {"*router.local_tokens_per_expert", PG_MEGATRON_SAME},
    /* megatron-core; experts of TEGroupedMLP have weights with numbers */
    {"*.layer_norm_weight", PG_MEGATRON_SAME},
    {"*.layer_norm_bias", PG_MEGATRON_SAME},
    {"*.linear_qkv.weight", PG_MEGATRON_ROWS},
    {"*.linear_qkv.bias", PG_MEGATRON_ROWS},
    {"*.linear_q.weight", PG_MEGATRON_ROWS},
    {"*.linear_q.bias", PG_MEGATRON_ROWS},
    {"*.linear_kv.weight", PG_MEGATRON_ROWS},
    {"*.linear_kv.bias", PG_MEGATRON_ROWS},
    {"*.linear_q_proj.weight", PG_MEGATRON_ROWS},
    {"*.linear_q_up_proj.weight", PG_MEGATRON_ROWS},
    {"*.linear_kv_up_proj.weight", PG_MEGATRON_ROWS},
    {"*.linear_proj.weight", PG_MEGATRON_COLUMNS},
    {"*.linear_proj.bias", PG_MEGATRON_SAME},
    {"*.linear_fc1.weight*", PG_MEGATRON_GATED},
    {"*.linear_fc1.bias*", PG_MEGATRON_GATED},
    {"*.linear_fc2.weight*", PG_MEGATRON_COLUMNS},
    {"*.linear_fc2.bias*", PG_MEGATRON_SAME},
    {"*.shared_experts.gate_weight", PG_MEGATRON_SAME},
    {"mtp.*.enorm.weight", PG_MEGATRON_SAME},
    {"mtp.*.hnorm.weight", PG_MEGATRON_SAME},
    {"mtp.*.eh_proj.weight", PG_MEGATRON_ROWS},
    /* megatron-lm */
    {"*norm.weight", PG_MEGATRON_SAME},
    {"*norm.bias", PG_MEGATRON_SAME},
    {"*.query_key_value.weight", PG_MEGATRON_QKV},
    {"*.query_key_value.bias", PG_MEGATRON_QKV},
    {"*.key_value.weight", PG_MEGATRON_KV},
    {"*.key_value.bias", PG_MEGATRON_KV},
    {"*attention.query.weight", PG_MEGATRON_ROWS},
    {"*attention.query.bias", PG_MEGATRON_ROWS},
    {"*attention.dense.weight", PG_MEGATRON_COLUMNS},
    {"*attention.dense.bias", PG_MEGATRON_SAME},
    {"*.dense_h_to_4h.weight", PG_MEGATRON_GATED},
    {"*.dense_h_to_4h.bias", PG_MEGATRON_GATED},
    {"*.dense_4h_to_h.weight", PG_MEGATRON_COLUMNS},
    {"*.dense_4h_to_h.bias", PG_MEGATRON_SAME},
};

pg__megatron_cut pg__megatron_rule(const pg__megatron_rules *r, const char *name, int *given)
{
    *given = 1;
    for (size_t i = 0; i < r->patterns.n; i++)
        if (fnmatch(r->patterns.v[i], name, 0) == 0) {
            r->used[i] = 1;
            return r->cuts[i];
        }
    *given = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (fnmatch(table[i].pattern, name, 0) == 0)
            return table[i].cut;
    return PG_MEGATRON_UNKNOWN;
}

/* ---- --rules ---- */

static const struct {
    const char *word;
    pg__megatron_cut cut;
} cut_words[] = {
    {"0", PG_MEGATRON_ROWS},     {"1", PG_MEGATRON_COLUMNS},   {"same", PG_MEGATRON_SAME},
    {"glu", PG_MEGATRON_HALVES}, {"first", PG_MEGATRON_FIRST},
};

static const struct {
    const char *word;
    int version;
} families[] = {
    {"megatron-core", 3}, {"megatron-lm-3", 3}, {"megatron-lm-2", 2},
    {"megatron-lm-1", 1}, {"megatron-lm-0", 0},
};

static pg_status bad_rule(const char *rule, pg_err *err)
{
    (void)pg_fail(err, PG_E_ARG, "unknown rule '%s'", PG_SHOW(rule));
    pg_err_hint(
        err,
        "megatron-core, megatron-lm-3, -2, -1, -0, heads=N, vocab=N, or NAME=HOW with how it is "
        "cut: 0, 1 (axis), glu, same, first");
    return PG_E_ARG;
}

static pg_status add_pattern(pg__megatron_rules *r, const char *rule, const char *eq, pg_err *err)
{
    for (size_t i = 0; i < sizeof cut_words / sizeof *cut_words; i++) {
        if (strcmp(eq + 1, cut_words[i].word) != 0)
            continue;
        if (pg__mem_grow(&r->cuts, &r->cap, r->patterns.n + 1, sizeof *r->cuts))
            return pg__nomem(err);
        r->cuts[r->patterns.n] = cut_words[i].cut;
        return pg__strs_add(&r->patterns, rule, (size_t)(eq - rule), err);
    }
    return bad_rule(rule, err);
}

/* "heads=N" */
static pg_status read_number(uint64_t *out, const char *rule, unsigned long most, pg_err *err)
{
    char *end = NULL;
    const char *digits = strchr(rule, '=') + 1;
    errno = 0;
    const unsigned long n = strtoul(digits, &end, 10);
    if (errno || *digits < '0' || *digits > '9' || *end || n == 0 || n > most)
        return bad_rule(rule, err);
    *out = n;
    return PG_OK;
}

static pg_status add_rule(pg__megatron_rules *r, const char *rule, pg_err *err)
{
    const char *eq = strrchr(rule, '=');
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(rule, families[i].word) == 0) {
            r->version = families[i].version;
            return PG_OK;
        }
    if (strncmp(rule, "heads=", 6) == 0)
        return read_number(&r->heads, rule, MAX_HEADS, err);
    if (strncmp(rule, "vocab=", 6) == 0)
        return read_number(&r->words, rule, MAX_WORDS, err);
    return eq && eq > rule ? add_pattern(r, rule, eq, err) : bad_rule(rule, err);
}

pg_status pg__megatron_rules_read(pg__megatron_rules *out, const char *text, pg_err *err)
{
    pg_status st = PG_OK;
    pg__megatron_rules r = {.version = -1};
    while (text && *text) {
        const size_t n = strcspn(text, ",");
        char *rule = pg__mem_strndup(text, n);
        st = rule ? add_rule(&r, rule, err) : pg__nomem(err);
        pg__mem_free(rule);
        if (st != PG_OK)
            goto done;
        text += n + (text[n] == ',');
    }
    r.used = pg__mem_array(r.patterns.n, 1);
    if (!r.used)
        PG_TRY(pg__nomem(err));
    *out = r;
    r = (pg__megatron_rules){0};
done:
    pg__megatron_rules_fini(&r);
    return st;
}

pg_status pg__megatron_rules_check(const pg__megatron_rules *r, pg_err *err)
{
    for (size_t i = 0; i < r->patterns.n; i++)
        if (!r->used[i])
            return pg_fail(err, PG_E_ARG,
                           "no tensor has the name in the rule '%s', or an earlier rule is of it",
                           PG_SHOW(r->patterns.v[i]));
    return PG_OK;
}

void pg__megatron_rules_fini(pg__megatron_rules *r)
{
    pg__strs_fini(&r->patterns);
    pg__mem_free(r->cuts);
    pg__mem_free(r->used);
    *r = (pg__megatron_rules){0};
}
