/* bsd.h - functions that every Unix of today has, macOS among them, and that POSIX.1-2008 lacks. With
 * PG_PORTABLE glibc hides them together with what only Linux has. */
#ifndef PG_BASE_BSD_H
#define PG_BASE_BSD_H

#include <locale.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#if defined(PG_PORTABLE) && defined(__GLIBC__)
void *memmem(const void *bytes, size_t n, const void *wanted, size_t n_wanted);
char *strcasestr(const char *text, const char *wanted);
double strtod_l(const char *text, char **end, locale_t locale);
#endif

#endif
