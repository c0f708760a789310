/* fuzz_safetensors.c - any bytes as a safetensors file; what opens must come out of the writer as
 * the same tensors. */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void write_and_compare(pg_store *s)
{
    pg_err err = {0};
    pg__plan plan = {0};
    pg__sink *sink = NULL;
    pg__io *io = NULL;
    pg_store *out = NULL;
    require(pg__plan_copy_of(&plan, s, &err) == PG_OK &&
            pg__sink_open_memory(&sink, &err) == PG_OK);
    require(pg__fmt_safetensors.write(sink, &plan, &err) == PG_OK);
    require(pg__sink_reopen(sink, &io, &err) == PG_OK);
    require(pg__fmt_safetensors.open(&out, io, NULL, &(pg_open_opts){0}, &err) == PG_OK);
    require(pg_store_n_weights(out) == pg_store_n_weights(s));
    for (size_t i = 0; i < pg_store_n_weights(s); i++) {
        const pg_weight *a = pg_store_weight(s, i), *b = pg_store_weight(out, i);
        require(strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->rank == b->rank &&
                memcmp(a->dims, b->dims, sizeof a->dims) == 0);
    }
    pg_store_close(out);
    pg__io_close(io);
    pg__sink_close(sink);
    pg__plan_fini(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    pg__io *io = NULL;
    pg_store *s = NULL;
    fuzz_open(&pg__fmt_safetensors, data, n, "w.safetensors");
    if (pg__io_open_mem(&io, data, n, NULL) != PG_OK)
        return 0;
    if (pg__fmt_safetensors.open(&s, io, NULL, &(pg_open_opts){0}, NULL) == PG_OK)
        write_and_compare(s);
    pg_store_close(s);
    pg__io_close(io);
    return 0;
}
