/* beside.h - where the parts of libpg are that are files of their own and are opened when something
 * needs them. */
#ifndef PG_BASE_BESIDE_H
#define PG_BASE_BESIDE_H

#include <limits.h>

/* The path of `file`: beside the library or the program that this is part of, as they are installed
 * and as they lie in a build folder (there in libpg/`built_in`), then where it was to be installed.
 * 0: it is in none of these. */
int pg__find_beside(char out[PATH_MAX], const char *file, const char *built_in);

#endif
