/* plugin.h - the only symbol of pg-cuda.so. */
#ifndef PG_BACKEND_PLUGIN_H
#define PG_BACKEND_PLUGIN_H

#include "backend/backend.h"

/* The back end, or NULL if the caller's interface differs from this plug-in's. */
__attribute__((visibility("default"))) const pg__backend *pg_backend_get(uint32_t abi);

#endif
