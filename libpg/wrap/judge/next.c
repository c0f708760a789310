/* next.c - the call that takes the one-device model out of a wrapper's file: what pginfo and
 * pgcheck propose. It must work as it stands, so it says where pg_unwrap_file() would ask for a
 * model. */
#include <string.h>

#include "base/str.h"
#include "format/format.h"
#include "format/shards.h"
#include "wrap/judge/verdict.h"

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Length of a split's path without its manifest. */
static size_t folder_of(const char *path)
{
    const char *base = base_of(path);
    return base > path && strcmp(base, "manifest.json") == 0 ? (size_t)(base - 1 - path)
                                                             : strlen(path);
}

/* The suffix of what pg_unwrap_file() writes for such a file; "" if its name has none. */
static const char *suffix_of_output(const char *base, const pg_store *s)
{
    static const char *const doubles[] = {".weights.h5", ".weights.json"};
    const char *dot = strrchr(base, '.');
    const size_t len = strlen(base);
    const pg__format *f = pg__format_of(s);
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        const size_t n = strlen(doubles[i]);
        if (len > n && strcmp(base + len - n, doubles[i]) == 0)
            dot = ".weights.h5"; /* the shards of an index are joined */
    }
    if (f && !f->write && pg_store_n_layers(s) == 0)
        return ".safetensors";
    return dot && dot != base ? dot : "";
}

/* The name of the whole that a split was made of, with the suffix of what is joined. */
static void add_whole(pg_action *out, const char *source, const char *suffix)
{
    const size_t n = strlen(source), n_suffix = strlen(suffix);
    const char *dot = strrchr(source, '.');
    const size_t n_stem = n >= n_suffix && strcmp(source + n - n_suffix, suffix) == 0 ? n - n_suffix
                          : dot ? (size_t)(dot - source)
                                : n;
    pg__action_arg(out, "file", "%.*s%s", n_stem ? (int)n_stem : 5, n_stem ? source : "whole",
                   suffix);
}

void pg__next_action(pg_action *out, const pg_store *s, const pg_finding *f, const char *like)
{
    const pg__shards *shards = pg__shards_of(s);
    const char *in = f->index ? f->index : pg__store_path(s);
    const char *base = base_of(shards ? pg__shards_manifest(shards)->source : in);
    const char *suffix = suffix_of_output(base, s);
    const int asks = f->verdict == PG_V_AMBIGUOUS || f->unsettled;
    *out = (pg_action){0};
    if (!*in || (f->index && asks)) /* no file; the index is not there */
        return;
    if (f->verdict == PG_V_AMBIGUOUS && pg_store_n_layers(s) == 0)
        return; /* words that nobody knows, in names: no command settles it */
    out->what = PG_DO_UNWRAP;
    if (shards) { /* pg_unwrap_file() takes whole files */
        pg__action_arg(out, "split", "%.*s", (int)folder_of(in), in);
        add_whole(out, base, suffix);
    } else {
        pg__action_arg(out, "file", "%s", in);
    }
    if (like)
        pg__action_arg(out, "like", "%s", like);
    else if (asks)
        pg__action_arg(out, pg_store_n_layers(s) ? "needs_model" : "needs_names", "true");
    pg__action_arg(out, "out", "%s%s", strncmp(base, "single.", 7) ? "single" : "unwrapped",
                   suffix);
    pg__action_arg(out, "suffix", "%s", suffix);
}

void pg__next_join(pg_action *out, const pg_store *s)
{
    const char *in = pg__store_asked(s);
    const pg__format *f = pg__format_of(s);
    *out = (pg_action){0};
    if (!*in || !f || !f->of_ranks)
        return;
    out->what = PG_DO_JOIN;
    pg__action_arg(out, "file", "%s", in);
    pg__action_arg(out, "out", "model.safetensors");
    pg__action_arg(out, "suffix", ".safetensors");
}
