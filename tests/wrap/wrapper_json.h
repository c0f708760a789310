/* wrapper_json.h - model descriptions of wrappers, made from a few words. */
#ifndef WRAPPER_JSON_H
#define WRAPPER_JSON_H

#include "pg_test.h"

#include "base/mem.h"
#include "base/str.h"
#include "wrap/judge/verdict.h"

/* A wrapper as Keras 2 describes it: input_1, one slice per entry of `slices` (the members of its
 * config,
 * "" for none), the template model_1 called once per slice, and a merge with the given class and
 * config. */
typedef struct wrapper_json {
    const char *slice_class; /* NULL: Lambda */
    const char *const *slices;
    size_t n;
    const char *merge_class, *merge_config; /* NULL: Concatenate, "axis": 0 */
    const char *after;                      /* more layers, "" or ", {...}" */
    const char *feed;   /* layer that feeds the calls instead of the slices, or NULL */
    const char *call;   /* keyword arguments of the slices' calls, NULL: {} */
    const char *output; /* output layer, NULL: dense_1 */
} wrapper_json;

static inline void add(pg__str *s, const char *text)
{
    assert_ok(pg__str_puts(s, text, NULL));
}

static inline char *wrapper_text(const wrapper_json *w)
{
    pg__str s = {0};
    add(&s, "{\"class_name\": \"Model\", \"config\": {\"name\": \"model_2\", \"layers\": ["
            "{\"name\": \"input_1\", \"class_name\": \"InputLayer\", \"config\": {\"name\": "
            "\"input_1\", "
            "\"batch_input_shape\": [null, 4]}, \"inbound_nodes\": []}");
    for (size_t i = 0; i < w->n; i++)
        assert_ok(pg__str_printf(
            &s, NULL,
            ", {\"name\": \"lambda_%zu\", \"class_name\": \"%s\", \"config\": {\"name\": "
            "\"lambda_%zu\"%s%s}, \"inbound_nodes\": [[[\"input_1\", 0, 0, %s]]]}",
            i + 1, w->slice_class ? w->slice_class : "Lambda", i + 1, *w->slices[i] ? ", " : "",
            w->slices[i], w->call ? w->call : "{}"));
    add(&s, ", {\"name\": \"model_1\", \"class_name\": \"Model\", \"config\": {\"name\": "
            "\"model_1\", \"layers\": ["
            "{\"name\": \"input_1\", \"class_name\": \"InputLayer\", \"config\": {\"name\": "
            "\"input_1\", "
            "\"batch_input_shape\": [null, 4]}, \"inbound_nodes\": []}, "
            "{\"name\": \"dense_1\", \"class_name\": \"Dense\", \"config\": {\"name\": "
            "\"dense_1\", \"units\": 3, "
            "\"use_bias\": true}, \"inbound_nodes\": [[[\"input_1\", 0, 0, {}]]]}], "
            "\"input_layers\": [[\"input_1\", 0, 0]], \"output_layers\": [[\"dense_1\", 0, 0]]}, "
            "\"inbound_nodes\": [");
    for (size_t i = 0; i < w->n; i++)
        assert_ok(
            w->feed
                ? pg__str_printf(&s, NULL, "%s[[\"%s\", 0, 0, {}]]", i ? ", " : "", w->feed)
                : pg__str_printf(&s, NULL, "%s[[\"lambda_%zu\", 0, 0, {}]]", i ? ", " : "", i + 1));
    assert_ok(pg__str_printf(&s, NULL,
                             "]}, {\"name\": \"dense_1\", \"class_name\": \"%s\", \"config\": "
                             "{\"name\": \"dense_1\", %s}, "
                             "\"inbound_nodes\": [[",
                             w->merge_class ? w->merge_class : "Concatenate",
                             w->merge_config ? w->merge_config : "\"axis\": 0"));
    for (size_t i = 0; i < w->n; i++)
        assert_ok(pg__str_printf(&s, NULL, "%s[\"model_1\", %zu, 0, {}]", i ? ", " : "", i + 1));
    assert_ok(pg__str_printf(
        &s, NULL,
        "]]}%s], \"input_layers\": [[\"input_1\", 0, 0]], \"output_layers\": [[\"%s\", 0, 0]]}}",
        w->after ? w->after : "", w->output ? w->output : "dense_1"));
    return s.s;
}

/* What the description is, as "wrapper multi_gpu_model certain 2", "nested". The store has one
 * weight. */
static inline const char *judge_text(char *buf, size_t n, const char *text)
{
    pg__verdict v = {0};
    pg_store *s = pg_test_store("input_1 lambda_1 lambda_2 model_1[dense_1/kernel:0] dense_1");
    assert_ok(pg__store_set_text(s, PG_TEXT_MODEL_CONFIG, text, strlen(text), NULL));
    assert_ok(pg__judge(&v, s, NULL));
    assert_non_null(v.graph);
    if (v.f.verdict == PG_V_WRAPPER)
        snprintf(buf, n, "wrapper %s %s %zu", v.f.recogniser, v.f.certain ? "certain" : "likely",
                 v.f.replicas);
    else
        snprintf(buf, n, "%s: %s", pg_verdict_name(v.f.verdict), v.f.reason);
    pg__verdict_fini(&v);
    pg_store_close(s);
    return buf;
}

static inline const char *judge_json(char *buf, size_t n, const wrapper_json *w)
{
    char *text = wrapper_text(w);
    judge_text(buf, n, text);
    pg__mem_free(text);
    return buf;
}

#define assert_judged(want, ...)                                                                  \
    do {                                                                                          \
        char got_[512];                                                                           \
        assert_string_equal(judge_json(got_, sizeof got_, &(wrapper_json){__VA_ARGS__}), (want)); \
    } while (0)

#define assert_refused(because, ...)                                     \
    do {                                                                 \
        char got_[512];                                                  \
        judge_json(got_, sizeof got_, &(wrapper_json){__VA_ARGS__});     \
        if (strncmp(got_, "nested: ", 8) != 0 || !strstr(got_, because)) \
            fail_msg("%s, wanted nested because \"%s\"", got_, because); \
    } while (0)

#endif
