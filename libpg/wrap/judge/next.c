/* next.c - the command that takes the one-device model out of a wrapper's file: what pginfo and
 * pgcheck propose. It must work as it stands, so it names an output that is not there yet, and a
 * model wherever pgunwrap would ask for one. */
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/try.h"
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

/* The suffix of what pgunwrap writes for such a file; "" if its name has none. */
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

pg_status pg__free_name(pg__str *out, const char *stem, const char *suffix, pg_err *err)
{
    pg_status st = pg__str_printf(out, err, "%s%s", stem, suffix);
    for (unsigned k = 2; st == PG_OK && k < 100 && access(out->s, F_OK) == 0; k++) {
        out->n = 0;
        st = pg__str_printf(out, err, "%s-%u%s", stem, k, suffix);
    }
    return st;
}

pg_status pg__next_command(pg__str *hint, const pg_store *s, const pg_finding *f, const char *like,
                           pg_err *err)
{
    pg_status st = PG_OK;
    pg__str to = {0}, whole = {0};
    const pg__shards *shards = pg__shards_of(s);
    const char *in = f->index ? f->index : pg__store_path(s), *base = base_of(in);
    const int asks = f->verdict == PG_V_AMBIGUOUS || f->unsettled;
    if (!*in || (f->index && asks)) /* no file; the index is not there */
        return PG_OK;
    if (f->verdict == PG_V_AMBIGUOUS && pg_store_n_layers(s) == 0)
        return PG_OK; /* words that nobody knows, in names: no command settles it */
    if (shards) {     /* pgunwrap takes whole files */
        base = base_of(pg__shards_manifest(shards)->source);
        const char *suffix = suffix_of_output(base, s);
        PG_TRY(pg__str_add(&to, base, strlen(base) - strlen(suffix), err));
        PG_TRY(pg__free_name(&whole, to.n ? to.s : "whole", suffix, err));
        to.n = 0;
        PG_TRY(pg__str_add(&to, in, folder_of(in), err));
        PG_TRY(pg__str_printf(hint, err, "pgjoin %s %s && ", PG_QUOTE(to.s), PG_QUOTE(whole.s)));
        in = whole.s;
        to.n = 0;
    }
    PG_TRY(pg__free_name(&to, strncmp(base, "single.", 7) ? "single" : "unwrapped",
                         suffix_of_output(base, s), err));
    PG_TRY(pg__str_puts(hint, "pgunwrap ", err));
    if (like || asks)
        PG_TRY(pg__str_printf(hint, err, "--like %s ",
                              like                   ? PG_QUOTE(like)
                              : pg_store_n_layers(s) ? "MODEL"
                                                     : "PLAIN"));
    PG_TRY(pg__str_printf(hint, err, "%s %s", PG_QUOTE(in), PG_QUOTE(to.s)));
    if (asks && !like && pg_store_n_layers(s) == 0)
        PG_TRY(pg__str_puts(hint, PG_PLAIN_IS, err));
    else if (asks && !like)
        PG_TRY(pg__str_puts(hint, "   (MODEL: the one-device model as JSON, full .h5 or .keras)",
                            err));
    if (strstr(hint->s, PG_UNQUOTABLE)) /* a name that no shell would take */
        hint->n = 0;
done:
    pg__str_fini(&to);
    pg__str_fini(&whole);
    return st;
}
