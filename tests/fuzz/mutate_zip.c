/* mutate_zip.c - damage for ZIP archives. Three times in four it is done to a member, by the
 * mutator of what it holds, or to the list of members, and the archive is written anew around them:
 * CRCs, sizes, offsets, directory and end record are right, deflated members are deflated again.
 * One time in four headers are then, or instead, damaged in a few places; else the bytes are
 * libFuzzer's. */
#include <zlib.h>

#include "base/hash.h"
#include "mutate.h"

#define LOCAL   30
#define ENTRY   46
#define END     22
#define MEMBERS 16
#define CONTENT 32768 /* at most, of a member that is changed */
#define ARCHIVE 65536

typedef struct member {
    const uint8_t *name, *extra, *data;
    size_t n_name, n_extra, n_data;
    unsigned flags, method;
    uint32_t stamp; /* time and date */
    uint32_t crc, size;
    int changed; /* CRC and size are known */
} member;

typedef struct archive {
    member m[MEMBERS];
    size_t n;
    int wide; /* has the records of zip64 */
} archive;

/* ---- into members ---- */

/* The signature "PK" a b at or behind `at`; n: there is none. */
static size_t find(const uint8_t *data, size_t n, size_t at, char a, char b)
{
    const char signature[] = {'P', 'K', a, b};
    const uint8_t *p = at < n ? memmem(data + at, n - at, signature, sizeof signature) : NULL;
    return p ? (size_t)(p - data) : n;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The member whose header is at p; what follows begins at `end`. */
static member member_at(const uint8_t *p, const uint8_t *end)
{
    const size_t room = (size_t)(end - p) - LOCAL, stored = get_le(p + 18, 4);
    member m = {.flags = (unsigned)get_le(p + 6, 2),
                .method = (unsigned)get_le(p + 8, 2),
                .stamp = (uint32_t)get_le(p + 10, 4)};
    m.n_name = smaller(get_le(p + 26, 2), room);
    m.n_extra = smaller(get_le(p + 28, 2), room - m.n_name);
    m.n_data = room - m.n_name - m.n_extra;
    m.name = p + LOCAL;
    m.extra = m.name + m.n_name;
    m.data = m.extra + m.n_extra;
    if (m.flags & 8 && m.n_data >= 16 && memcmp(end - 16, "PK\7\10", 4) == 0)
        m.n_data -= 16;
    else if (stored > 0 && stored < m.n_data)
        m.n_data = stored;
    return m;
}

static void split(archive *a, const uint8_t *data, size_t n)
{
    const size_t dir = find(data, n, 0, 1, 2);
    a->n = 0;
    a->wide = find(data, n, dir, 6, 6) < n;
    for (size_t at = find(data, dir, 0, 3, 4); at + LOCAL <= dir && a->n < MEMBERS;) {
        const size_t next = find(data, dir, at + LOCAL, 3, 4);
        a->m[a->n++] = member_at(data + at, data + next);
        at = next;
    }
}

/* ---- damage ---- */

static size_t inflated(uint8_t *out, size_t cap, const member *m)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)m->data,
                  .avail_in = (uInt)m->n_data,
                  .next_out = out,
                  .avail_out = (uInt)cap};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return 0;
    (void)inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return z.total_out;
}

static size_t deflated(uint8_t *out, size_t cap, const uint8_t *p, size_t n)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)p,
                  .avail_in = (uInt)n,
                  .next_out = out,
                  .avail_out = (uInt)cap};
    if (deflateInit2(&z, 1, Z_DEFLATED, -12, 1, Z_DEFAULT_STRATEGY) != Z_OK) /* small: fast */
        return 0;
    const int whole = deflate(&z, Z_FINISH) == Z_STREAM_END;
    deflateEnd(&z);
    return whole ? z.total_out : 0;
}

static size_t mutate_content(dice *d, uint8_t *p, size_t n, size_t cap)
{
    if (n > 8 && memcmp(p, "\x89HDF", 4) == 0)
        return mutate_h5(d, p, n, cap);
    if (n > 10 && memcmp(p, "\x93NUMPY", 6) == 0)
        return mutate_npy(d, p, n, cap);
    if (n == 0 || throw_dice(d, 4))
        return LLVMFuzzerMutate(p, n, cap);
    change(d, p, n, throw_dice(d, n));
    return n;
}

/* What m holds is changed; cap: bytes that it may then take. */
static void damage(dice *d, member *m, size_t cap)
{
    static uint8_t content[CONTENT], packed[CONTENT];
    size_t n = 0;
    cap = smaller(cap, CONTENT);
    if (cap == 0 || (m->method != 8 && m->n_data > cap))
        return;
    if (m->method == 8)
        n = inflated(content, cap, m);
    else if (m->n_data)
        memcpy(content, m->data, n = m->n_data);
    n = mutate_content(d, content, n, cap);
    m->crc = pg__crc32(0, content, n);
    m->size = (uint32_t)n;
    m->changed = 1;
    m->data = content;
    m->n_data = n;
    if (m->method == 8 && throw_dice(d, 4) && (n = deflated(packed, cap, content, n)) > 0) {
        m->data = packed;
        m->n_data = n;
    } else {
        m->method = 0;
    }
}

/* One of the names that readers ask for. */
static void rename_known(dice *d, member *m)
{
    static const char *const known[] = {
        "metadata.json",  "config.json",     "model.weights.h5", "archive/data.pkl",
        "archive/data/0", "archive/version", "archive/data/1",   "archive/byteorder",
        "a.npy",          "b.npy",           "assets/a"};
    const char *s = known[throw_dice(d, sizeof known / sizeof *known)];
    m->name = (const uint8_t *)s;
    m->n_name = strlen(s);
}

static void rename_member(member *m)
{
    static uint8_t name[64];
    const size_t n = smaller(m->n_name, sizeof name / 2);
    if (n)
        memcpy(name, m->name, n);
    m->name = name;
    m->n_name = LLVMFuzzerMutate(name, n, sizeof name);
}

static int is_named(const archive *a, size_t i)
{
    const member *m = &a->m[i];
    for (size_t k = 0; k < m->n_name; k++)
        if (m->name[k] < ' ' || m->name[k] > '~' || m->name[k] == '\\')
            return 0;
    for (size_t k = 0; k < i; k++)
        if (a->m[k].n_name == m->n_name && memcmp(a->m[k].name, m->name, m->n_name) == 0)
            return 0;
    return m->n_name > 0;
}

/* Damage of earlier runs that would stop a reader at the door. */
static void heal(dice *d, archive *a)
{
    for (size_t i = 0; i < a->n; i++) {
        for (size_t k = 0; k < 8 && !is_named(a, i); k++)
            rename_known(d, &a->m[i]);
        a->m[i].flags &= 0x0808; /* sizes that follow, UTF-8 */
        a->m[i].method &= 8;
        if (throw_dice(d, 4))
            a->m[i].n_extra = 0;
    }
}

/* The list: a member goes, comes twice under another name, or changes its place, name or flags. */
static void shuffle(dice *d, archive *a)
{
    const size_t i = throw_dice(d, a->n), j = throw_dice(d, a->n);
    const member m = a->m[i];
    switch (throw_dice(d, 6)) {
    case 0:
        memmove(a->m + i, a->m + i + 1, (a->n - i - 1) * sizeof m);
        a->n--;
        break;
    case 1:
        if (a->n == MEMBERS)
            break;
        a->m[a->n] = m;
        rename_known(d, &a->m[a->n++]);
        break;
    case 2:
        a->m[i] = a->m[j];
        a->m[j] = m;
        break;
    case 3: a->m[i].flags ^= 8; break;
    case 4: a->wide = !a->wide; break;
    default: rename_member(&a->m[i]);
    }
}

/* A byte of some header: of a member, an entry, or the end. */
static size_t aim(dice *d, const uint8_t *data, size_t n)
{
    static const char signature[][2] = {{3, 4}, {1, 2}, {5, 6}, {6, 6}, {6, 7}};
    const char *s = signature[throw_dice(d, 8) % 5];
    size_t at = find(data, n, throw_dice(d, n), s[0], s[1]);
    if (at == n)
        at = find(data, n, 0, s[0], s[1]);
    if (at == n)
        return throw_dice(d, n);
    at += throw_dice(d, ENTRY + 24);
    return at < n ? at : n - 1;
}

/* ---- and back ---- */

/* CRC and size of what is not changed. */
static void measure(member *m)
{
    static uint8_t content[ARCHIVE];
    const size_t n = m->method == 8 ? inflated(content, sizeof content, m) : m->n_data;
    m->crc = n ? pg__crc32(0, m->method == 8 ? content : m->data, n) : 0;
    m->size = (uint32_t)n;
}

static void put(uint8_t **p, const void *bytes, size_t n)
{
    if (n)
        memcpy(*p, bytes, n);
    *p += n;
}

/* The 26 bytes that local header and entry share, from the version needed on. */
static void put_common(uint8_t **p, const member *m, size_t n_extra, int sizes)
{
    const uint32_t number[] = {m->stamp, m->crc, (uint32_t)m->n_data, m->size};
    set_le(*p, 20, 2);
    set_le(*p + 2, m->flags, 2);
    set_le(*p + 4, m->method, 2);
    for (size_t i = 0; i < 4; i++)
        set_le(*p + 6 + 4 * i, i == 0 || sizes ? number[i] : 0, 4);
    set_le(*p + 22, m->n_name, 2);
    set_le(*p + 24, n_extra, 2);
    *p += 26;
}

static void put_member(uint8_t **p, const member *m)
{
    const int later = (m->flags & 8) != 0;
    put(p, "PK\3\4", 4);
    put_common(p, m, m->n_extra, !later);
    put(p, m->name, m->n_name);
    put(p, m->extra, m->n_extra);
    put(p, m->data, m->n_data);
    if (!later)
        return;
    put(p, "PK\7\10", 4);
    set_le(*p, m->crc, 4);
    set_le(*p + 4, m->n_data, 4);
    set_le(*p + 8, m->size, 4);
    *p += 12;
}

static void put_entry(uint8_t **p, const member *m, size_t at)
{
    put(p, "PK\1\2\24\0", 6);
    put_common(p, m, 0, 1);
    memset(*p, 0, 10); /* comment, part, attributes */
    set_le(*p + 10, at, 4);
    *p += 14;
    put(p, m->name, m->n_name);
}

static void put_end(uint8_t **p, const archive *a, size_t dir, size_t n_dir)
{
    if (a->wide) {
        const size_t at = dir + n_dir;
        put(p, "PK\6\6\54\0\0\0\0\0\0\0\24\0\24\0\0\0\0\0\0\0\0\0", 24);
        set_le(*p, a->n, 8);
        set_le(*p + 8, a->n, 8);
        set_le(*p + 16, n_dir, 8);
        set_le(*p + 24, dir, 8);
        *p += 32;
        put(p, "PK\6\7\0\0\0\0", 8);
        set_le(*p, at, 8);
        set_le(*p + 8, 1, 4);
        *p += 12;
    }
    put(p, "PK\5\6\0\0\0\0", 8);
    set_le(*p, a->n, 2);
    set_le(*p + 2, a->n, 2);
    set_le(*p + 4, n_dir, 4);
    set_le(*p + 8, a->wide ? UINT32_MAX : dir, 4);
    set_le(*p + 12, 0, 2);
    *p += 14;
}

static size_t bytes_of(const archive *a)
{
    size_t n = END + 56 + 20;
    for (size_t i = 0; i < a->n; i++)
        n += LOCAL + ENTRY + 16 + 2 * a->m[i].n_name + a->m[i].n_extra + a->m[i].n_data;
    return n;
}

/* 0: has no room. */
static size_t join(uint8_t *out, size_t cap, archive *a)
{
    size_t at[MEMBERS];
    uint8_t *p = out;
    if (bytes_of(a) > cap)
        return 0;
    for (size_t i = 0; i < a->n; i++) {
        at[i] = (size_t)(p - out);
        if (!a->m[i].changed)
            measure(&a->m[i]);
        put_member(&p, &a->m[i]);
    }
    const size_t dir = (size_t)(p - out);
    for (size_t i = 0; i < a->n; i++)
        put_entry(&p, &a->m[i], at[i]);
    put_end(&p, a, dir, (size_t)(p - out) - dir);
    return (size_t)(p - out);
}

/* 0: nothing to work on, or no room. */
static size_t remake(dice *d, uint8_t *data, size_t n, size_t cap)
{
    static uint8_t out[ARCHIVE];
    archive a;
    split(&a, data, n);
    if (a.n == 0)
        return 0;
    if (throw_dice(d, 8))
        heal(d, &a);
    if (throw_dice(d, 12) == 0) {
        shuffle(d, &a);
    } else {
        member *m = &a.m[throw_dice(d, a.n)];
        const size_t others = bytes_of(&a) - m->n_data;
        damage(d, m, others < cap ? cap - others : 0);
    }
    n = join(out, smaller(cap, sizeof out), &a);
    memcpy(data, out, n);
    return n;
}

size_t mutate_zip(dice *d, uint8_t *data, size_t n, size_t cap)
{
    const size_t how = throw_dice(d, 16);
    const size_t made = how < 13 ? remake(d, data, n, cap) : 0;
    if (how == 15 || n == 0 || (how < 13 && made == 0))
        return LLVMFuzzerMutate(data, n, cap);
    n = made ? made : n;
    for (size_t k = how < 11 ? 0 : 1 + throw_dice(d, 2); k > 0; k--)
        change(d, data, n, aim(d, data, n));
    return n;
}
