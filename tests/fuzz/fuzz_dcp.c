/* fuzz_dcp.c - any bytes as the .metadata of torch.distributed.checkpoint. What is accepted must
 * tile every tensor, and each part of it must have names. */
#include <stdlib.h>
#include <string.h>

#include "format/dcp.h"
#include "keep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void check_tensor(const pg__dcp *d, const pg__dcp_tensor *t)
{
    uint64_t all = 1, covered = 0;
    for (uint32_t k = 0; k < t->tiled.rank; k++)
        all *= t->tiled.dims[k];
    for (size_t i = 0; i < t->tiled.n; i++) {
        uint64_t n = 1;
        require(t->tiled.v[i].source < d->n_items);
        for (uint32_t k = 0; k < t->tiled.rank; k++)
            n *= t->tiled.v[i].size[k];
        covered += n;
    }
    require(covered == all && t->n_path > 0);
}

static void check_part(const pg__dcp *d, const char *part)
{
    pg__dcp_part p = {0};
    pg_err err = {0};
    if (pg__dcp_part_of(&p, d, part, &err) != PG_OK) {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
        return;
    }
    require(p.names.n == p.n);
    for (size_t i = 0; i < p.n; i++)
        require(p.tensor[i] < d->n && p.names.v[i] != NULL);
    pg__dcp_part_fini(&p);
}

/* Whatever the files beside it say. */
static void check_layers(pg__dcp *d, uint8_t choice)
{
    const pg__dcp_core core = {.is_core = choice & 1,
                               .is_local = choice >> 1 & 1,
                               .experts = (pg__dcp_experts)(choice >> 2 & 3)};
    pg__str note = {0};
    pg_err err = {0};
    if (pg__dcp_unstack(d, &core, &note, &err) != PG_OK)
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
    else
        for (size_t i = 0; i < d->n; i++)
            check_tensor(d, &d->v[i]);
    pg__str_fini(&note);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    pg__io *io = NULL;
    pg__dcp d = {0};
    pg_err err = {0};
    if (pg__io_open_mem(&io, data, n, &err) != PG_OK)
        return 0;
    if (pg__dcp_read(&d, io, &err) == PG_OK) {
        keep(data, n);
        for (size_t i = 0; i < d.n; i++)
            check_tensor(&d, &d.v[i]);
        check_part(&d, NULL);
        check_part(&d, ".");
        check_part(&d, "model");
        check_layers(&d, data[n - 1]);
        pg__dcp_fini(&d);
    } else {
        require(err.code != PG_OK && err.msg[0] && !strchr(err.msg, '\n'));
    }
    pg__io_close(io);
    return 0;
}
