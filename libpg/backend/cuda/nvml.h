/* nvml.h - the driver's measurements of a GPU, through its own library (NVML), which is opened on
 * first use. If the library is missing or does not know the GPU, nothing is known, and that is not
 * an error. */
#ifndef PG_BACKEND_NVML_H
#define PG_BACKEND_NVML_H

#include "backend/backend.h"

typedef struct pg__nvml pg__nvml;

/* bus: "0000:3b:00.0", what is the same for both libraries, however they count. NULL: not there. */
pg__nvml *pg__nvml_open(const char *bus);
void pg__nvml_close(pg__nvml *m);

/* 1: *out is filled. */
int pg__nvml_read(const pg__nvml *m, pg__gauge *out);

#endif
