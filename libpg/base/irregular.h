/* irregular.h - names for things that are neither regular files nor folders. */
#ifndef PG_BASE_IRREGULAR_H
#define PG_BASE_IRREGULAR_H

#include <sys/stat.h>

static inline const char *pg__irregular(const struct stat *sb)
{
    return S_ISFIFO(sb->st_mode) ? "pipe" : S_ISSOCK(sb->st_mode) ? "socket" : "device";
}

#endif
