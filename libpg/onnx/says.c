/* says.c - which layer classes can be said in ONNX: those whose operations for a prediction are in
 * ops.def. */
#include "base/try.h"
#include "onnx/onnx.h"

static const unsigned char is_said[PG_N_OPS] = {
#define PG_ONNX_OP(name, fn, words) [PG_OP_##name] = 1,
#include "onnx/ops.def"
#undef PG_ONNX_OP
};

pg_status pg_onnx_says(int *out, const char *class_name, pg_err *err)
{
    unsigned char used[PG_N_OPS] = {0};
    pg_status st = PG_OK;
    *out = 0;
    PG_TRY(pg__sample_ops(used, out, class_name, 0, err));
    for (int kind = 0; kind < PG_N_OPS; kind++)
        *out &= !used[kind] || is_said[kind];
done:
    return st;
}
