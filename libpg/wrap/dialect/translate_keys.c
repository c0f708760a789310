/* translate_keys.c - a table of the config members that Keras 2.15 and Keras 3 write differently:
 * each reads only its own form and refuses unknown members. Found by comparing get_config() of
 * every class of one with the constructor's arguments of the other. */
#include <fnmatch.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "wrap/dialect/translate.h"

typedef enum action {
    DROP,         /* does not affect the result */
    DROP_IF,      /* dropped if it has the fixed value of the other Keras */
    DROP_OR_KEEP, /* the other one accepts but does not need it */
    RENAME,
    OTHER,   /* a value with another meaning in the other Keras */
    ADD,     /* if it is missing */
    ONE_AXIS /* [3] becomes 3 */
} action;

static const struct {
    int to;              /* 0: both */
    const char *classes; /* a pattern */
    const char *key;
    action what;
    const char *word; /* the value, or the new key */
} rules[] = {
    {3, "InputLayer", "batch_input_shape", RENAME, "\"batch_shape\""},
    {3, "InputLayer", "input_dtype", RENAME, "\"dtype\""},
    {3, "InputLayer", "ragged", DROP_IF, "false"},
    {3, "*", "batch_input_shape", DROP, NULL},
    {3, "*", "input_dtype", DROP, NULL},
    {3, "*", "time_major", DROP_IF, "false"},
    {3, "*", "dynamic", DROP_IF, "false"},
    {3, "Conv?DTranspose", "groups", DROP_IF, "1"},
    {3, "DepthwiseConv?D", "groups", DROP_IF, "1"},
    {3, "SeparableConv?D", "groups", DROP_IF, "1"},
    {3, "SeparableConv?D", "kernel_*er", DROP, NULL},
    {3, "SeparableConv?D", "kernel_constraint", DROP, NULL},
    {3, "Embedding", "input_length", DROP, NULL},
    {3, "BatchNormalization*", "axis", ONE_AXIS, NULL},
    {3, "LeakyReLU", "alpha", RENAME, "\"negative_slope\""},
    {3, "MultiHeadAttention", "*_shape", DROP, NULL},
    {3, "SpatialDropout?D", "noise_shape", DROP, NULL},
    {3, "SpatialDropout?D", "trainable", DROP, NULL},
    {3, "Discretization", "trainable", DROP, NULL},
    {3, "*Uniform", "dtype", DROP, NULL},
    {3, "*Normal", "dtype", DROP, NULL},
    {3, "VarianceScaling", "dtype", DROP, NULL},
    {3, "Zeros", "dtype", DROP, NULL},
    {3, "Ones", "dtype", DROP, NULL},
    {3, "Constant", "dtype", DROP, NULL},
    {3, "Orthogonal", "dtype", DROP, NULL},
    {3, "Identity", "dtype", DROP, NULL},
    {0, "*", "activation", OTHER, "\"hard_sigmoid\""},
    {0, "*", "recurrent_activation", OTHER, "\"hard_sigmoid\""},
    {0, "GRU", "reset_after", ADD, "false"}, /* the meaning of its absence */
    {2, "InputLayer", "batch_shape", RENAME, "\"batch_input_shape\""},
    {2, "InputLayer", "optional", DROP_IF, "false"},
    {2, "MultiHeadAttention", "query_shape", ADD, "null"},
    {2, "MultiHeadAttention", "key_shape", ADD, "null"},
    {2, "MultiHeadAttention", "value_shape", ADD, "null"},
    {2, "MultiHeadAttention", "seed", DROP, NULL},
    {2, "MultiHeadAttention", "flash_attention", DROP_IF, "null"},
    {2, "MultiHeadAttention", "use_gate", DROP_IF, "false"},
    {2, "ConvLSTM?D", "seed", DROP, NULL},
    {2, "*", "zero_output_for_mask", DROP_OR_KEEP, "false"},
    {2, "*", "rms_scaling", DROP_IF, "false"},
    {2, "*", "lora_rank", DROP_IF, "null"},
    {2, "*", "quantization_config", DROP_IF, "null"},
    {2, "CenterCrop", "data_format", DROP_IF, "\"channels_last\""},
    {2, "Random*", "data_format", DROP_IF, "\"channels_last\""},
    {2, "Resizing", "data_format", DROP_IF, "\"channels_last\""},
    {2, "Resizing", "fill_mode", DROP_IF, "\"constant\""},
    {2, "Resizing", "fill_value", DROP_IF, "0.0"},
    {2, "Resizing", "pad_to_aspect_ratio", DROP_IF, "false"},
    {2, "LeakyReLU", "negative_slope", RENAME, "\"alpha\""},
};
#define N_RULES (sizeof rules / sizeof *rules)

static int applies(const pg__translating *t, size_t rule, const char *class_name)
{
    return (rules[rule].to == 0 || rules[rule].to == t->to) &&
           (!t->same || rules[rule].what == ADD) &&
           fnmatch(rules[rule].classes, class_name, 0) == 0;
}

/* Removes a member and one comma: the one before it if another member precedes it (up to `before`),
 * else the one after. */
static pg_status drop(pg__translating *t, pg__json_span key, pg__json_span value, size_t before)
{
    size_t to = value.off + value.n;
    if (before)
        return pg__edit_add(t, before, to - before, "", 0);
    while (strchr(" \t\r\n,", t->text[to])) /* the object's brace ends it */
        to++;
    return pg__edit_add(t, key.off, to - key.off, "", 0);
}

static pg_status one_axis(pg__translating *t, pg__json_span value, const char *name)
{
    pg__json_walk w = pg__json_walk_of(t->text, value);
    if (t->text[value.off] != '[' || !pg__json_walk_next(&w))
        return PG_OK;
    const pg__json_span axis = w.value;
    if (pg__json_walk_next(&w))
        return pg__edit_lack(t, name, "several axes");
    return pg__edit_add(t, value.off, value.n, t->text + axis.off, axis.n);
}

/* kept_to: end of the previous member if an earlier one stays, else 0. */
static pg_status apply(pg__translating *t, size_t rule, const pg__json_walk *w, size_t kept_to,
                       int *dropped, const char *name)
{
    const pg__json_span key = w->key, value = w->value;
    const char *word = rules[rule].word;
    const action what = rules[rule].what;
    const int equal =
        word && value.n == strlen(word) && memcmp(t->text + value.off, word, value.n) == 0;
    *dropped = what == DROP || (equal && (what == DROP_IF || what == DROP_OR_KEEP));
    if (*dropped)
        return drop(t, key, value, kept_to);
    switch (what) {
    case DROP_IF: return pg__edit_lack(t, name, rules[rule].key);
    case RENAME: return pg__edit_replace(t, key, word);
    case ONE_AXIS: return one_axis(t, value, name);
    case OTHER:
        return equal ? pg__edit_lack(t, name, "hard_sigmoid is a different function there") : PG_OK;
    case DROP:
    case DROP_OR_KEEP:
    case ADD: break;
    }
    return PG_OK;
}

/* {"class_name": "Policy", "config": {"name": "mixed_float16"}} becomes its name, which both read.
 */
static pg_status translate_dtype(pg__translating *t, pg__json_span dtype, const char *name)
{
    const char *text = t->text;
    const pg__json_span class_name = pg__json_member(text, dtype, "class_name");
    const pg__json_span word =
        pg__json_member(text, pg__json_member(text, dtype, "config"), "name");
    if (dtype.n == 0 || text[dtype.off] != '{')
        return PG_OK;
    if ((!pg__json_is_text(text, class_name, "DTypePolicy") &&
         !pg__json_is_text(text, class_name, "Policy")) ||
        !word.n || text[word.off] != '"')
        return pg__edit_lack(t, name, "its dtype policy");
    return pg__edit_add(t, dtype.off, dtype.n, text + word.off, word.n);
}

static int key_matches(const char *text, pg__json_span key, const char *pattern)
{
    char word[64];
    if (!strchr(pattern, '*'))
        return pg__json_key_is(text, key, pattern);
    if (key.n < 2 || key.n - 2 >= sizeof word)
        return 0;
    memcpy(word, text + key.off + 1, key.n - 2);
    word[key.n - 2] = 0;
    return fnmatch(pattern, word, 0) == 0;
}

pg_status pg__translate_keys(pg__translating *t, pg__json_span config, const char *class_name,
                             const char *name)
{
    pg_status st = PG_OK;
    size_t end = 0;
    int kept = 0;
    if (t->text[config.off] != '{')
        return PG_OK;
    for (pg__json_walk w = pg__json_walk_of(t->text, config); pg__json_walk_next(&w);) {
        size_t rule = 0;
        while (rule < N_RULES &&
               (!applies(t, rule, class_name) || !key_matches(t->text, w.key, rules[rule].key)))
            rule++;
        int dropped = 0;
        if (rule < N_RULES)
            PG_TRY(apply(t, rule, &w, kept ? end : 0, &dropped, name));
        kept |= !dropped;
        end = w.value.off + w.value.n;
    }
    for (size_t rule = 0; rule < N_RULES; rule++)
        if (rules[rule].what == ADD && applies(t, rule, class_name) &&
            pg__json_member(t->text, config, rules[rule].key).n == 0)
            PG_TRY(pg__edit_insert(t, config, rules[rule].key, rules[rule].word));
    const pg__json_span dtype = pg__json_member(t->text, config, "dtype");
    PG_TRY(translate_dtype(t, dtype, name));
done:
    return st;
}
