/* pickle_impl.h - the stack machine that pickle.c runs and on which the opcodes of pickle_ops.c
 * work. */
#ifndef PG_BASE_PICKLE_IMPL_H
#define PG_BASE_PICKLE_IMPL_H

#include "base/pickle.h"

/* Values that exist only once. */
enum { PG_PK_AT_NONE, PG_PK_AT_FALSE, PG_PK_AT_TRUE, PG_PK_N_CONSTANTS };

typedef struct pg__pk_machine {
    pg__pickle *p;
    const unsigned char *text;
    size_t n, at, ops;
    size_t max_ops, max_memo;
    unsigned char op; /* the current opcode */
    int cut, stopped;
    uint32_t *stack;
    size_t n_stack, cap_stack;
    uint32_t *marks; /* heights of the stack */
    size_t n_marks, cap_marks;
    uint32_t *memo; /* value + 1; 0: not set */
    size_t n_memo, cap_memo, n_set;
    pg_err *err;
} pg__pk_machine;

typedef pg_status pg__pk_handler(pg__pk_machine *);

/* An error at the current byte. */
pg_status pg__pk_damaged(pg__pk_machine *m, const char *what);
pg_status pg__pk_too_many(pg__pk_machine *m, const char *what);
/* The next n bytes. */
pg_status pg__pk_take(pg__pk_machine *m, uint64_t n, const unsigned char **out);
/* A little-endian number of `width` bytes. */
pg_status pg__pk_number(pg__pk_machine *m, size_t width, uint64_t *out);
/* A text that ends with a newline; *n is without it. */
pg_status pg__pk_line(pg__pk_machine *m, const char **line, size_t *n);
/* An existing value, by number; a new value. */
pg_status pg__pk_push_old(pg__pk_machine *m, uint32_t value);
pg_status pg__pk_push(pg__pk_machine *m, pg__pk_value v);
/* Only values above the last mark may be taken. */
size_t pg__pk_n_free(const pg__pk_machine *m);
pg_status pg__pk_pop(pg__pk_machine *m, uint32_t *out);
pg_status pg__pk_top(pg__pk_machine *m, pg__pk_value **out);
/* Removes the last mark and returns what lies above it; those values stay on the stack. */
pg_status pg__pk_pop_mark(pg__pk_machine *m, size_t *first);
/* Appends to a value's items. Their array has room for the next power of two, at least four. */
pg_status pg__pk_append(pg__pk_machine *m, pg__pk_value *v, const uint32_t *items, size_t n);
/* Pushes a container made of the values stack[first...], which it replaces. */
pg_status pg__pk_gather(pg__pk_machine *m, pg__pk_kind kind, size_t first);

/* Sets the function of every existing opcode. */
void pg__pk_set_handlers(pg__pk_handler *handlers[256]);

#endif
