/* identify.h - a useful answer about a file that no format accepts. */
#ifndef PG_FORMAT_IDENTIFY_H
#define PG_FORMAT_IDENTIFY_H

#include "io/io.h"

/* Says what the file is, as far as its bytes reveal it (or, if they do not, its name; path may be
 * NULL), with a hint if there is something to do. Never PG_OK: PG_E_UNKNOWN, or PG_E_UNSUPPORTED
 * for formats that libpg could read one day. The message does not name the file. */
pg_status pg__identify(pg__io *io, const char *path, pg_err *err);

/* The answer for a Python pickle; what: "a PyTorch pickle". */
pg_status pg__fail_pickle(const char *what, pg_err *err);

#endif
