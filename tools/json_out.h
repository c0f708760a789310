/* json_out.h - JSON on stdout, or into a stream, written as it goes. */
#ifndef JSON_OUT_H
#define JSON_OUT_H

#include <stddef.h>
#include <stdint.h>

/* Where output goes from now on; NULL is stdout. */
void json_into(void *stream);

/* A string in quotes, or null. Bytes that are not UTF-8 become U+FFFD. */
void json_quoted(const char *text);

/* ', "key": value'; json_count() writes null if known is 0, json_number() if v is not finite. */
void json_member(const char *key, const char *text);
void json_count(const char *key, int known, uint64_t n);
void json_number(const char *key, double v);
void json_strings(const char *key, char **items, size_t n);

#endif
