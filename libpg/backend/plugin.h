/* plugin.h - back ends in separate files, opened when one of their devices is named: a program that
 * trains on the CPU never loads NVIDIA's libraries. */
#ifndef PG_BACKEND_LOAD_H
#define PG_BACKEND_LOAD_H

#include "backend/backend.h"

/* The back end of pg-cuda.so, or of the file that PG_CUDA_PLUGIN names. It stays open. `device` is
 * the device asked for. PG_E_UNSUPPORTED: it, or a library that it needs, is missing, or it came
 * with another libpg; the message says what to install. */
pg_status pg__plugin_cuda(const pg__backend **out, const char *device, pg_err *err);

#endif
