/* h5_session.h - only one thread at a time uses libhdf5: as distributions build it, it is not
 * reentrant. */
#ifndef PG_FORMAT_H5_H5_SESSION_H
#define PG_FORMAT_H5_H5_SESSION_H

#include <stddef.h>

/* Takes the only lock; until it is released, libhdf5 prints no errors. Plug-ins are never
 * searched. */
void pg__h5_enter(void);
void pg__h5_leave(void);

/* Writes libhdf5's innermost reason for the call that just failed, printable, into text. Returns 1
 * if it ran out of memory. */
int pg__h5_reason(char *text, size_t n);

#endif
