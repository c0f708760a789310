/* fuzz_onnx.c - any bytes as an ONNX file; the graph of what opens is written again with the same
 * tensors. */
#include "format/onnx.h"
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char frame[] = "\x08\x07\x3a\x03\x12\x01m\x42\x02\x10\x0d";
    pg__io *io = NULL;
    pg_store *s = NULL;
    pg_err err = {0};
    pg__plan plan = {0};
    pg__sink *sink = NULL;
    fuzz_open(&pg__fmt_onnx, data, n, "w.onnx");
    if (pg__io_open_mem(&io, data, n, NULL) != PG_OK)
        return 0;
    if (pg__fmt_onnx.open(&s, io, NULL, &(pg_open_opts){0}, NULL) == PG_OK &&
        pg__plan_copy_of(&plan, s, &err) == PG_OK &&
        pg__plan_set_text(&plan, PG_TEXT_MODEL_CONFIG, frame, sizeof frame - 1, &err) == PG_OK &&
        pg__sink_open_memory(&sink, &err) == PG_OK &&
        pg__fmt_onnx.write(sink, &plan, &err) == PG_OK) {
        pg__io *again = NULL;
        pg_store *out = NULL;
        if (pg__sink_reopen(sink, &again, &err) != PG_OK ||
            pg__fmt_onnx.open(&out, again, NULL, &(pg_open_opts){0}, &err) != PG_OK ||
            pg_store_n_weights(out) != pg_store_n_weights(s) ||
            pg__fmt_onnx.verify(out, &plan, &err) != PG_OK)
            abort();
        pg_store_close(out);
        pg__io_close(again);
    }
    pg__sink_close(sink);
    pg__plan_fini(&plan);
    pg_store_close(s);
    pg__io_close(io);
    return 0;
}
