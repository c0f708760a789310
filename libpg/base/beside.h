/* beside.h - finds the parts of libpg that are separate files and are opened only when needed. */
#ifndef PG_BASE_BESIDE_H
#define PG_BASE_BESIDE_H

#include <limits.h>

/* The path of `file`. Searched in this order: beside the library or program that contains this
 * code, both as installed and as laid out in a build folder (there in libpg/`built_in`), and where
 * that is a Python package, in the packages pgfit_* that pip installed with it; then where it was to
 * be installed. Returns 0 if it is in none of these places. */
int pg__find_beside(char out[PATH_MAX], const char *file, const char *built_in);

#endif
