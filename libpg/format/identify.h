/* identify.h - a useful answer about a file that no format wants. */
#ifndef PG_FORMAT_IDENTIFY_H
#define PG_FORMAT_IDENTIFY_H

#include "io/io.h"

/* Says what the file is, as far as its bytes (and, where they say nothing, its name; path may be
 * NULL) tell, with a hint where there is a way on. Never PG_OK: PG_E_UNKNOWN, or PG_E_UNSUPPORTED
 * for what could be read one day. The message does not name the file. */
pg_status pg__identify(pg__io *io, const char *path, pg_err *err);

/* The answer about a Python pickle; what: "a PyTorch pickle". */
pg_status pg__fail_pickle(const char *what, pg_err *err);

#endif
