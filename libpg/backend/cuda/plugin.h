/* plugin.h - the one symbol of pg-cuda.so. */
#ifndef PG_BACKEND_PLUGIN_H
#define PG_BACKEND_PLUGIN_H

#include "backend/backend.h"

/* The back end, or NULL where the caller's interface is another than this plug-in's. */
__attribute__((visibility("default"))) const pg__backend *pg_backend_get(uint32_t abi);

#endif
