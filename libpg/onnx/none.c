/* none.c - pg/onnx.h in a build without the trainer, whose operations a model becomes. */
#include "pg/onnx.h"

void pg_onnx_report_fini(pg_onnx_report *r)
{
    (void)r;
}

pg_status pg_onnx_file(const char *in, const char *out, const pg_onnx_opts *opts,
                       pg_onnx_report *report, pg_err *err)
{
    (void)in, (void)out, (void)opts, (void)report;
    return pg_fail(err, PG_E_UNSUPPORTED,
                   "this build of libpg does not write ONNX; use one that has the trainer");
}
