/* h5_session.h - one at a time inside libhdf5: as distributions build it, it is not reentrant. */
#ifndef PG_FORMAT_H5_H5_SESSION_H
#define PG_FORMAT_H5_H5_SESSION_H

#include <stddef.h>

/* Takes the one lock; until it is left libhdf5 prints no errors. Plug-ins are never searched. */
void pg__h5_enter(void);
void pg__h5_leave(void);

/* libhdf5's innermost reason for the call that just failed, printable, into text. Returns 1 if it
 * lacked memory. */
int pg__h5_reason(char *text, size_t n);

#endif
