/* env.c - see env.h. */
#include "base/env.h"

#include <stdlib.h>
#include <unistd.h>

const char *pg__env(const char *name)
{
#ifndef PG_PORTABLE
    return secure_getenv(name);
#else
    return getuid() == geteuid() && getgid() == getegid() ? getenv(name) : NULL;
#endif
}
