/* comm_agree.c - failing together: who has arrived, and whether all can continue. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "comm/comm_impl.h"

static int same_failure(const pg_err *a, const pg_err *b)
{
    return a->code == b->code && strcmp(a->msg, b->msg) == 0;
}

/* Reports the first rank that failed; all of them if they say the same. */
static pg_status take_failure(const pg__comm *c, const pg_err *all, pg_err *err)
{
    size_t first = 0, n_same = 0;
    char who[96];
    while (all[first].code == PG_OK)
        first++;
    for (size_t k = 0; k < c->size; k++)
        n_same += (size_t)same_failure(&all[k], &all[first]);
    if (err)
        *err = all[first];
    snprintf(who, sizeof who, "rank %zu on %s", first, c->peers[first].host);
    if (n_same < c->size)
        pg_err_prefix(err, who);
    return all[first].code;
}

pg_status pg__comm_agree(pg__comm *c, pg_status mine, pg_err *err)
{
    const int32_t code = (int32_t)mine;
    int32_t *codes = NULL;
    pg_err *all = NULL, own = {.code = mine};
    int failed = 0;
    pg_status st = PG_OK;
    if (!c || c->is_broken)
        return mine;
    codes = pg__mem_array(c->size, sizeof *codes);
    if (!codes)
        return pg__nomem(err);
    PG_TRY(pg__comm_gather(c, &code, codes, sizeof code, "the ranks' readiness", err));
    for (size_t k = 0; k < c->size; k++)
        failed |= codes[k] != PG_OK;
    if (!failed)
        goto done;
    all = pg__mem_array(c->size, sizeof *all);
    if (!all)
        PG_TRY(pg__nomem(err));
    if (mine != PG_OK && err)
        own = *err;
    PG_TRY(pg__comm_gather(c, &own, all, sizeof own, "the ranks' failure", err));
    st = take_failure(c, all, err);
done:
    pg__mem_free(codes);
    pg__mem_free(all);
    return st;
}

/* ---- opening ---- */

/* Has any rank joined only to report that it cannot take part? Rank 0 reports it for all. */
static pg_status ask_all(pg__comm *c, pg_status mine, pg_err *err)
{
    const pg_status st = pg__comm_agree(c, mine, err);
    if (st != PG_OK && st != PG_E_PEER && c->rank > 0 && err)
        *err = (pg_err){.code = st};
    return st;
}

pg_status pg__comm_open(pg__comm **out, const pg__comm_opts *opts, pg_err *err)
{
    pg__comm *c = NULL;
    pg_status st = pg__comm_join(&c, opts, err);
    if (st == PG_OK && c)
        st = ask_all(c, PG_OK, err);
    *out = st == PG_OK ? c : NULL;
    if (st != PG_OK)
        pg__comm_close(c);
    return st;
}

pg_status pg__comm_refuse(const pg__comm_opts *opts, pg_status mine, pg_err *err)
{
    pg__comm *c = NULL;
    pg_err unmet;
    pg_status st = mine;
    if (pg__comm_join(&c, opts, &unmet) == PG_OK && c)
        st = ask_all(c, mine, err);
    pg__comm_close(c);
    return st;
}
