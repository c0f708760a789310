#include "pg/version.h"

const char *pg_version(void)
{
    return PG_VERSION;
}
