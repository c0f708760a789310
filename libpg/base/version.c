/* version.c - the version of the running library, which need not be that of the headers. */
#include "pg/version.h"

const char *pg_version(void)
{
    return PG_VERSION;
}
