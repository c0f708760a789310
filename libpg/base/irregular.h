/* irregular.h - what to call something that is no regular file and no folder. */
#ifndef PG_BASE_IRREGULAR_H
#define PG_BASE_IRREGULAR_H

#include <sys/stat.h>

static inline const char *pg__irregular(const struct stat *sb)
{
    return S_ISFIFO(sb->st_mode) ? "pipe" : S_ISSOCK(sb->st_mode) ? "socket" : "device";
}

#endif
