/* env.h - variables of the environment. */
#ifndef PG_BASE_ENV_H
#define PG_BASE_ENV_H

/* NULL if it is not set, or if this process has rights that its user has not: then the environment
 * must not lead it anywhere. */
const char *pg__env(const char *name);

#endif
