/* shard_names.c - turns names of tensors into names of files. Names come from files of strangers:
 * "../../etc/x", "CON", "a:b", 60,000 letters, "Dense" beside "dense". Letters, digits and a few
 * signs stay; every other byte becomes %XX, so that different names stay different and nothing
 * depends on how a file system treats Unicode. A name that is too long is cut and ends with its
 * checksum; a name that is taken, ignoring case, gets "~2". */
#include "wrap/shard/shard_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/try.h"

#define MAX_COMPONENT 160u /* of 200, with "-00001-of-00003.npy" and "~12" */
#define MAX_DEPTH     12u
#define MAX_PATH_LEN  600u

/* A map from names to the names that they got, with open addressing. */
typedef struct slot {
    char *key, *value;
} slot;

typedef struct table {
    slot *v;
    size_t cap, n;
} table;

struct pg__shard_names {
    table taken; /* lower-case paths of files and folders */
    table dirs;  /* raw path of a folder -> its path */
};

static size_t find_slot(const table *t, const char *key)
{
    size_t i = pg__crc32(0, key, strlen(key)) & (t->cap - 1);
    while (t->v[i].key && strcmp(t->v[i].key, key) != 0)
        i = (i + 1) & (t->cap - 1);
    return i;
}

static const slot *find(const table *t, const char *key)
{
    const slot *s = t->cap ? &t->v[find_slot(t, key)] : NULL;
    return s && s->key ? s : NULL;
}

static pg_status grow(table *t, pg_err *err)
{
    table bigger = {.cap = t->cap ? 2 * t->cap : 256, .n = t->n};
    if (4 * (t->n + 1) < 3 * t->cap)
        return PG_OK;
    bigger.v = pg__mem_array(bigger.cap, sizeof *bigger.v);
    if (!bigger.v)
        return pg__nomem(err);
    for (size_t i = 0; i < t->cap; i++)
        if (t->v[i].key)
            bigger.v[find_slot(&bigger, t->v[i].key)] = t->v[i];
    pg__mem_free(t->v);
    *t = bigger;
    return PG_OK;
}

static pg_status put(table *t, const char *key, const char *value, pg_err *err)
{
    pg_status st = grow(t, err);
    if (st != PG_OK)
        return st;
    slot s = {pg__mem_strdup(key), pg__mem_strdup(value)};
    if (!s.key || !s.value) {
        pg__mem_free(s.key);
        pg__mem_free(s.value);
        return pg__nomem(err);
    }
    t->v[find_slot(t, key)] = s;
    t->n++;
    return PG_OK;
}

static void table_fini(table *t)
{
    for (size_t i = 0; i < t->cap; i++) {
        pg__mem_free(t->v[i].key);
        pg__mem_free(t->v[i].value);
    }
    pg__mem_free(t->v);
}

pg_status pg__shard_names_new(pg__shard_names **out, pg_err *err)
{
    *out = pg__mem_array(1, sizeof **out);
    return *out ? PG_OK : pg__nomem(err);
}

void pg__shard_names_free(pg__shard_names *n)
{
    if (!n)
        return;
    table_fini(&n->taken);
    table_fini(&n->dirs);
    pg__mem_free(n);
}

static void to_lower(char *s)
{
    for (; *s; s++)
        if (*s >= 'A' && *s <= 'Z')
            *s = (char)(*s - 'A' + 'a');
}

static int is_taken(const pg__shard_names *n, const char *path)
{
    char *lower = pg__mem_strdup(path);
    if (!lower)
        return 0; /* put() fails next */
    to_lower(lower);
    const int taken = find(&n->taken, lower) != NULL;
    pg__mem_free(lower);
    return taken;
}

static pg_status take(pg__shard_names *n, const char *path, pg_err *err)
{
    char *lower = pg__mem_strdup(path);
    if (!lower)
        return pg__nomem(err);
    to_lower(lower);
    const pg_status st = put(&n->taken, lower, "", err);
    pg__mem_free(lower);
    return st;
}

pg_status pg__shard_names_reserve(pg__shard_names *n, const char *name, pg_err *err)
{
    return take(n, name, err);
}

/* ---- one component ---------------------------------------------------------------------------
 */

/* Names that mean a device to Windows, with any suffix. */
static int is_device(const char *s, size_t n)
{
    static const char *const names[] = {"con", "prn", "aux", "nul"};
    char low[5] = "";
    const size_t stem = strcspn(s, ".") < n ? strcspn(s, ".") : n;
    if (stem < 3 || stem > 4)
        return 0;
    memcpy(low, s, stem);
    to_lower(low);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(low, names[i]) == 0)
            return 1;
    return stem == 4 && (strncmp(low, "com", 3) == 0 || strncmp(low, "lpt", 3) == 0) &&
           low[3] >= '0' && low[3] <= '9';
}

static int is_plain(const char *s, size_t i, size_t n)
{
    const char c = s[i];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')
        return 1;
    if (c == '.')
        return i > 0 && i + 1 < n; /* ".", "..", hidden files; Windows drops a final one */
    return c && strchr("-+=@,()[]", c) && i > 0;
}

static pg_status escape(pg__str *out, const char *s, size_t n, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    if (n == 0)
        return pg__str_puts(out, "%", err); /* a raw % is %25 */
    for (size_t i = 0; i < n && text.n <= 4 * MAX_COMPONENT; i++)
        if (is_plain(s, i, n) && !(i == 0 && is_device(s, n)))
            PG_TRY(pg__str_add(&text, s + i, 1, err));
        else
            PG_TRY(pg__str_printf(&text, err, "%%%02X", (unsigned char)s[i]));
    if (text.n <= MAX_COMPONENT) {
        PG_TRY(pg__str_add(out, text.s, text.n, err));
    } else {
        size_t keep = MAX_COMPONENT - 10;
        while (text.s[keep - 1] == '%' || text.s[keep - 2] == '%')
            keep--;
        PG_TRY(pg__str_add(out, text.s, keep, err));
        PG_TRY(pg__str_printf(out, err, "~%08" PRIx32, pg__crc32(0, s, n)));
    }
done:
    pg__str_fini(&text);
    return st;
}

/* ---- copies ----------------------------------------------------------------------------------
 */

static pg_status piece_name(pg__str *out, const char *stem, unsigned copy, size_t i, size_t n,
                            const char *suffix, pg_err *err)
{
    pg_status st = PG_OK;
    out->n = 0;
    PG_TRY(pg__str_puts(out, stem, err));
    if (copy > 1)
        PG_TRY(pg__str_printf(out, err, "~%u", copy));
    if (n > 1)
        PG_TRY(pg__str_printf(out, err, "-%05zu-of-%05zu", i + 1, n));
    PG_TRY(pg__str_puts(out, suffix, err));
done:
    return st;
}

/* *free: none of the n names of a copy is taken. */
static pg_status is_free(int *free, const pg__shard_names *names, const char *stem, unsigned copy,
                         size_t n, const char *suffix, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str path = {0};
    *free = 1;
    for (size_t i = 0; i < n && *free; i++) {
        PG_TRY(piece_name(&path, stem, copy, i, n, suffix, err));
        *free = !is_taken(names, path.s);
    }
done:
    pg__str_fini(&path);
    return st;
}

/* The first free copy if all before it are taken, otherwise any free one: by bisection, because a
 * file may have 100,000 names that differ in case only. */
static pg_status find_copy(unsigned *copy, const pg__shard_names *names, const char *stem, size_t n,
                           const char *suffix, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned lo = 0, hi = 1; /* lo is taken, hi will be free */
    int free = 0;
    for (;;) {
        PG_TRY(is_free(&free, names, stem, hi, n, suffix, err));
        if (free)
            break;
        lo = hi;
        hi *= 2;
    }
    while (hi - lo > 1) {
        const unsigned mid = lo + (hi - lo) / 2;
        PG_TRY(is_free(&free, names, stem, mid, n, suffix, err));
        *(free ? &hi : &lo) = mid;
    }
    *copy = hi;
done:
    return st;
}

/* ---- folders ---------------------------------------------------------------------------------
 */

/* Path of the folder that holds raw[0..n), with a slash after it, into out; "" for none. */
static pg_status add_folder(pg__shard_names *names, pg__str *out, const char *raw, size_t n,
                            pg_err *err)
{
    pg_status st = PG_OK;
    char *key = pg__mem_strndup(raw, n);
    pg__str base = {0}, path = {0};
    const slot *known = NULL;
    unsigned copy = 1;
    out->n = 0;
    PG_TRY(key ? pg__str_puts(out, "", err) : pg__nomem(err));
    if (n == 0)
        goto done;
    known = find(&names->dirs, key);
    if (known) {
        PG_TRY(pg__str_puts(out, known->value, err));
        goto done;
    }
    const char *slash = strrchr(key, '/');
    const size_t n_up = slash ? (size_t)(slash - key) : 0;
    PG_TRY(add_folder(names, &base, raw, n_up, err)); /* MAX_DEPTH deep at most */
    PG_TRY(escape(&base, slash ? slash + 1 : key, slash ? n - n_up - 1 : n, err));
    PG_TRY(find_copy(&copy, names, base.s, 1, "", err));
    PG_TRY(piece_name(&path, base.s, copy, 0, 1, "", err));
    PG_TRY(take(names, path.s, err));
    PG_TRY(pg__str_puts(&path, "/", err));
    PG_TRY(put(&names->dirs, key, path.s, err));
    PG_TRY(pg__str_puts(out, path.s, err));
done:
    pg__mem_free(key);
    pg__str_fini(&base);
    pg__str_fini(&path);
    return st;
}

/* The last component without the ":0" that TensorFlow adds to every variable. */
static size_t stem_length(const char *name)
{
    const size_t n = strlen(name);
    return n > 2 && strcmp(name + n - 2, ":0") == 0 ? n - 2 : n;
}

static size_t depth_of(const char *raw)
{
    size_t n = 1;
    for (; *raw; raw++)
        n += *raw == '/';
    return n;
}

pg_status pg__shard_names_add(pg__shard_names *n, pg__strs *out, const char *raw, size_t n_pieces,
                              const char *suffix, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str stem = {0}, path = {0};
    const int flat = depth_of(raw) > MAX_DEPTH || strlen(raw) > MAX_PATH_LEN;
    const char *slash = flat ? NULL : strrchr(raw, '/');
    const char *name = slash ? slash + 1 : raw;
    unsigned copy = 1;
    PG_TRY(add_folder(n, &stem, raw, slash ? (size_t)(slash - raw) : 0, err));
    PG_TRY(escape(&stem, name, stem_length(name), err));
    PG_TRY(find_copy(&copy, n, stem.s, n_pieces, suffix, err));
    for (size_t i = 0; i < n_pieces; i++) {
        PG_TRY(piece_name(&path, stem.s, copy, i, n_pieces, suffix, err));
        PG_TRY(take(n, path.s, err));
        PG_TRY(pg__strs_add(out, path.s, path.n, err));
    }
done:
    pg__str_fini(&stem);
    pg__str_fini(&path);
    return st;
}
