/* archive.c - see archive.h. */
#include "train/fit/archive.h"

#include <string.h>

#include "base/le.h"
#include "base/mem.h"

void pg__archive_bytes(pg__archive *a, void *p, size_t n)
{
    if (a->st != PG_OK)
        return;
    if (a->writes) {
        a->st = pg__str_add(&a->out, p, n, NULL);
    } else if (n > a->n - a->at) {
        a->st = PG_E_FORMAT;
    } else {
        memcpy(p, a->in + a->at, n);
        a->at += n;
    }
}

void pg__archive_u64(pg__archive *a, uint64_t *v)
{
    unsigned char raw[8];
    pg__put_le(raw, *v, sizeof raw);
    pg__archive_bytes(a, raw, sizeof raw);
    if (a->st == PG_OK)
        *v = pg__le64(raw);
}

void pg__archive_size(pg__archive *a, size_t *v)
{
    uint64_t wide = *v;
    pg__archive_u64(a, &wide);
    *v = (size_t)wide;
}

void pg__archive_int(pg__archive *a, int *v)
{
    uint64_t wide = (uint64_t)(int64_t)*v;
    pg__archive_u64(a, &wide);
    *v = (int)(int64_t)wide;
}

void pg__archive_real(pg__archive *a, double *v)
{
    uint64_t bits;
    memcpy(&bits, v, sizeof bits);
    pg__archive_u64(a, &bits);
    memcpy(v, &bits, sizeof bits);
}

void pg__archive_text(pg__archive *a, char **s)
{
    uint64_t n = *s ? strlen(*s) + 1 : 0;
    pg__archive_u64(a, &n);
    if (a->st != PG_OK || (a->writes && n == 0))
        return;
    if (a->writes) {
        pg__archive_bytes(a, *s, (size_t)n);
        return;
    }
    if (n > a->n - a->at || (n > 0 && a->in[a->at + n - 1] != '\0')) {
        a->st = PG_E_FORMAT;
        return;
    }
    char *fresh = n > 0 ? pg__mem_strndup((const char *)a->in + a->at, (size_t)n - 1) : NULL;
    if (n > 0 && !fresh) {
        a->st = PG_E_NOMEM;
        return;
    }
    pg__mem_free(*s);
    *s = fresh;
    a->at += (size_t)n;
}

void pg__archive_append(pg__archive *a, pg__append *file)
{
    size_t n = file->pending.n;
    pg__archive_text(a, &file->path);
    pg__archive_u64(a, &file->n_bytes);
    pg__archive_size(a, &n);
    if (a->writes) {
        pg__archive_bytes(a, file->pending.s, n);
        return;
    }
    if (a->st == PG_OK && n > a->n - a->at)
        a->st = PG_E_FORMAT;
    if (a->st != PG_OK)
        return;
    file->pending.n = 0;
    a->st = pg__str_add(&file->pending, (const char *)a->in + a->at, n, NULL);
    a->at += n;
}

void pg__archive_fini(pg__archive *a)
{
    pg__str_fini(&a->out);
}
