/* dcp_core.c - did Megatron-Core write a checkpoint of torch.distributed.checkpoint (its
 * torch_dist), and what do the files beside .metadata say about the model?
 *
 *     metadata.json   {"sharded_backend": "torch_dist", ...}: no other program writes it
 *     common.pt       a dictionary of torch.save(); Megatron-LM puts the job's arguments into it
 */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/try.h"
#include "format/dcp.h"
#include "format/megatron.h"
#include "format/pytorch_file.h"

#define CONFIG_MOST 65536u

/* A file beside `path`, or NULL. */
static pg_status open_beside(pg__io **out, const char *path, const char *name, pg_err *err)
{
    pg__str at = {0};
    pg_status st =
        pg__str_printf(&at, err, "%.*s%s", (int)(pg__base_name(path) - path), path, name);
    if (st == PG_OK)
        st = pg__io_open_if(out, at.s, err);
    pg__str_fini(&at);
    return st;
}

static pg_status read_config(pg__dcp_core *c, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__io *io = NULL;
    pg__json *json = NULL;
    char text[CONFIG_MOST];
    PG_TRY(open_beside(&io, path, "metadata.json", err));
    if (!io || pg__io_size(io) > sizeof text)
        goto done;
    const size_t n = (size_t)pg__io_size(io);
    PG_TRY(pg__io_read(io, 0, text, n, err));
    if (pg__json_parse(&json, text, n, NULL) == PG_OK) {
        const char *backend = pg__json_get_str(json, "sharded_backend");
        c->is_core = backend && strcmp(backend, "torch_dist") == 0;
    }
done:
    pg__json_free(json);
    pg__io_close(io);
    return st;
}

/* Which class holds the experts: get_moe_module_spec() of Megatron-Core. */
static pg__dcp_experts experts_of(const pg__megatron_args *a)
{
    if (!a->moe_grouped_gemm)
        return PG_DCP_EXPERTS_UNKNOWN;
    if (a->moe_grouped_gemm == 1)
        return PG_DCP_EXPERTS_SEQUENTIAL;
    if (a->is_local == 2 || a->moe_use_legacy_grouped_gemm == 2)
        return PG_DCP_EXPERTS_STACKED;
    return a->is_local == 1 ? PG_DCP_EXPERTS_GROUPED : PG_DCP_EXPERTS_UNKNOWN;
}

static pg_status read_common(pg__dcp_core *c, const char *path, pg_err *err)
{
    pg_status st = PG_OK;
    pg__pt_source f = {0};
    pg__megatron_facts facts = {0};
    pg_err e = {0};
    PG_TRY(open_beside(&f.io, path, "common.pt", err));
    if (!f.io)
        goto done;
    st = pg__pt_read_zip(&f, &e);
    if (st == PG_OK)
        st = pg__megatron_facts_of(&facts, &f.pickle, &e);
    if (st == PG_OK && facts.args.there) {
        c->is_core = 1;
        c->is_local = facts.args.is_local == 2;
        c->experts = experts_of(&facts.args);
        if (!facts.args.decoder_num_layers)
            c->n_layers = facts.args.num_layers;
    }
    if (st != PG_E_NOMEM && st != PG_E_IO)
        st = PG_OK; /* of something else, or damaged: it settles nothing */
    else if (err)
        *err = e;
done:
    pg__io_close(f.io);
    pg__pt_source_fini(&f);
    return st;
}

static int apply_rule(pg__dcp_core *c, const char *rule, size_t n)
{
    static const struct {
        const char *word;
        pg__dcp_core core;
    } known[] = {
        {"as-saved", {.as_saved = 1}},
        {"unstack", {.is_core = 1}},
        {"experts=sequential", {.experts = PG_DCP_EXPERTS_SEQUENTIAL}},
        {"experts=grouped", {.experts = PG_DCP_EXPERTS_GROUPED}},
        {"spec=local", {.is_local = 1}},
        {"spec=te", {0}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const pg__dcp_core *k = &known[i].core;
        if (strlen(known[i].word) != n || memcmp(known[i].word, rule, n) != 0)
            continue;
        c->as_saved |= k->as_saved;
        c->is_core |= k->is_core;
        if (k->is_core)
            c->n_layers = 0; /* whatever the arguments say */
        c->experts = k->experts ? k->experts : c->experts;
        if (rule[0] == 's')
            c->is_local = k->is_local;
        return 1;
    }
    return 0;
}

pg_status pg__dcp_core_of(pg__dcp_core *out, const char *path, const char *rules, pg_err *err)
{
    pg_status st = PG_OK;
    pg__dcp_core c = {0};
    PG_TRY(read_config(&c, path, err));
    PG_TRY(read_common(&c, path, err));
    while (rules && *rules) {
        const size_t n = strcspn(rules, ",");
        if (!apply_rule(&c, rules, n)) {
            (void)pg_fail(err, PG_E_ARG, "'%.*s' is not a rule for this checkpoint",
                          n < 80 ? (int)n : 80, PG_SHOW(rules));
            pg_err_hint(err,
                        "%sas-saved, unstack, experts=sequential, experts=grouped, spec=local or "
                        "spec=te",
                        c.is_core ? "" : "leave it out; Megatron-Core's checkpoints have ");
            return PG_E_ARG;
        }
        rules += n + (rules[n] == ',');
    }
    *out = c;
done:
    return st;
}
