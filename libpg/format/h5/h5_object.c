/* h5_object.c - from the messages of one object header to a group or a dataset (section IV.A.2).
 * Every message is checked, even those that we do not use, because libhdf5 decodes them, too. */
#include <string.h>

#include "format/h5/h5_impl.h"

enum {
    DATASPACE = 0x1,
    LINK_INFO = 0x2,
    DATATYPE = 0x3,
    OLD_FILL = 0x4,
    FILL = 0x5,
    LINK = 0x6,
    EXTERNAL_FILES = 0x7,
    LAYOUT = 0x8,
    GROUP_INFO = 0xA,
    FILTERS = 0xB,
    ATTRIBUTE = 0xC,
    COMMENT = 0xD,
    OLD_TIME = 0xE,
    SYMBOL_TABLE = 0x11,
    TIME = 0x12,
    ATTRIBUTE_INFO = 0x15,
    REFERENCES = 0x16,
    N_TYPES = 0x19
};

/* The only message of each type, or NULL; links and attributes may be many. */
typedef struct singles {
    const pg__h5_msg *of[N_TYPES];
} singles;

static pg_status check_attribute_info(pg__h5 *h, pg__h5_cur c, pg_err *err)
{
    pg_status st = PG_OK;
    const unsigned version = pg__h5_u32(&c, 1), flags = pg__h5_u32(&c, 1);
    pg__h5_span(&c, flags & 1 ? 2 : 0);
    const uint64_t heap = pg__h5_addr(h, &c);
    const uint64_t by_name = pg__h5_addr(h, &c);
    const uint64_t by_order = flags & 2 ? pg__h5_addr(h, &c) : PG_H5_UNDEF;
    PG_H5_NEED(!c.cut && version == 0 && flags <= 3,
               "attribute info: unknown version %u or flags 0x%x", version, flags);
    if (heap != PG_H5_UNDEF)
        PG_H5_UNCOVERED("attributes in dense storage are not supported");
    PG_H5_NEED(by_name == PG_H5_UNDEF && by_order == PG_H5_UNDEF,
               "index of attributes that are missing");
done:
    return st;
}

/* An old modification time, YYYYMMDDhhmmss. libhdf5 decodes it on request. */
static size_t digits_of(const uint8_t *p)
{
    char s[15] = "";
    memcpy(s, p, sizeof s - 1);
    return strspn(s, "0123456789");
}

/* Messages without information that we need. */
static pg_status check_minor(pg__h5 *h, uint32_t type, pg__h5_cur c, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t version = 0, flags;
    const uint8_t *p;
    switch (type) {
    case COMMENT:
        PG_H5_NEED(memchr(c.p, 0, pg__h5_left(&c)), "comment that does not end");
        h->walk->remnants = 1;
        break;
    case OLD_TIME:
        p = pg__h5_span(&c, 16);
        PG_H5_NEED(!p || digits_of(p) == 14, "modification time that is not a date");
        break;
    case TIME:
        version = pg__h5_u32(&c, 1) - 1;
        pg__h5_span(&c, 7);
        break;
    case REFERENCES:
        version = pg__h5_u32(&c, 1);
        pg__h5_span(&c, 4);
        break;
    case GROUP_INFO:
        version = pg__h5_u32(&c, 1);
        flags = pg__h5_u32(&c, 1);
        PG_H5_NEED(flags <= 3, "group info with unknown flags 0x%x", flags);
        pg__h5_span(&c, (flags & 1 ? 4u : 0) + (flags & 2 ? 4u : 0));
        break;
    case EXTERNAL_FILES:
        PG_H5_FAIL(PG_E_FORMAT, "external storage, its bytes are in another file: not followed");
    default: PG_H5_UNCOVERED("object header message %u is not supported", type);
    }
    PG_H5_NEED(!c.cut && version == 0, "message %u is cut short", type);
done:
    return st;
}

/* Fill values are never used here; their size must be the type's, or libhdf5 stumbles. */
static pg_status check_fill(const pg__h5 *h, pg__h5_cur c, int old, uint32_t n_elem, pg_err *err)
{
    pg_status st = PG_OK;
    uint32_t version = 0, defined = 1, n = 0;
    if (!old) {
        version = pg__h5_u32(&c, 1);
        PG_H5_NEED(version >= 1 && version <= 3, "fill value of unknown version %u", version);
        const uint32_t a = pg__h5_u32(&c, 1);
        if (version < 3) { /* when space is allocated, when the value is written */
            const uint32_t b = pg__h5_u32(&c, 1), d = pg__h5_u32(&c, 1);
            PG_H5_NEED(a <= 3 && b <= 2 && d <= 1, "fill value with unknown flags %u, %u, %u", a, b,
                       d);
            defined = d || version == 1;
        } else {
            PG_H5_NEED(a < 0x40, "fill value with unknown flags 0x%x", a);
            defined = a >> 5 & 1;
        }
    }
    if (defined)
        n = pg__h5_u32(&c, 4);
    n = n == UINT32_MAX ? 0 : n; /* version 2: undefined */
    pg__h5_span(&c, n);
    PG_H5_NEED(!c.cut, "fill value is cut short");
    PG_H5_NEED(n == 0 || n == n_elem, "fill value of %u bytes for elements of %u", n, n_elem);
done:
    return st;
}

static pg_status read_attributes(pg__h5 *h, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_walk *w = h->walk;
    const size_t first = h->n_attrs;
    for (size_t i = 0; i < w->n_msgs; i++) {
        if (w->msgs[i].type != ATTRIBUTE)
            continue;
        if (h->n_attrs - first >= PG_LIMIT_ATTRS)
            PG_H5_FAIL(PG_E_LIMIT, "more than %u attributes", PG_LIMIT_ATTRS);
        pg__h5_cur c = pg__h5_msg_cur(h, &w->msgs[i]);
        PG_TRY(pg__h5_attr_read(h, &c, err));
    }
    PG_TRY(pg__h5_attrs_check(h, first, err));
    h->more[w->obj].first_attr = first;
    h->objs[w->obj].n_attrs = (uint32_t)(h->n_attrs - first);
done:
    return st;
}

static pg_status read_dataset(pg__h5 *h, const singles *m, pg_err *err)
{
    pg_status st = PG_OK;
    pg__h5_object *o = &h->objs[h->walk->obj];
    pg__h5_filters filters = {0};
    uint64_t n_elems = 0;
    pg_err why = {0};
    pg__h5_cur c;
    PG_H5_NEED(m->of[DATATYPE] && m->of[DATASPACE], "dataset without a type or a shape");
    o->kind = PG_H5_DATASET;
    c = pg__h5_msg_cur(h, m->of[DATATYPE]);
    const pg_status read = pg__h5_type_read(h, &c, &o->type, &why);
    PG_TRY(pg__h5_data_type(h, read, &why, &o->type, err));
    c = pg__h5_msg_cur(h, m->of[DATASPACE]);
    PG_TRY(pg__h5_space_read(h, &c, &o->rank, o->dims, &n_elems, err));
    if (o->type.cls == PG_H5_OTHER)
        return pg__h5_unread_check(h, pg__h5_msg_cur(h, m->of[LAYOUT]), n_elems, err);
    if (o->rank == PG_H5_NULL)
        PG_H5_FAIL(PG_E_UNSUPPORTED, "dataset without a shape (null dataspace)");
    if (__builtin_mul_overflow(n_elems, (uint64_t)o->type.size, &o->n_bytes))
        PG_H5_FAIL(PG_E_LIMIT, "shape overflows: %s elements of %u bytes", PG_H5_NUM(n_elems),
                   o->type.size);
    for (int old = 0; old < 2; old++)
        if (m->of[old ? OLD_FILL : FILL])
            PG_TRY(check_fill(h, pg__h5_msg_cur(h, m->of[old ? OLD_FILL : FILL]), old, o->type.size,
                              err));
    if (m->of[FILTERS]) {
        c = pg__h5_msg_cur(h, m->of[FILTERS]);
        PG_TRY(pg__h5_filters_read(h, &c, &filters, err));
    }
    c = pg__h5_msg_cur(h, m->of[LAYOUT]);
    PG_TRY(pg__h5_layout_read(h, &c, m->of[LAYOUT]->at, &filters, err));
done:
    return st;
}

static pg_status sort_messages(pg__h5 *h, singles *m, pg_err *err)
{
    pg_status st = PG_OK;
    const pg__h5_walk *w = h->walk;
    for (size_t i = 0; i < w->n_msgs; i++) {
        const uint32_t type = w->msgs[i].type;
        if (type == LINK || type == ATTRIBUTE)
            continue;
        PG_H5_NEED(!m->of[type], "object header message %u occurs twice", type);
        m->of[type] = &w->msgs[i];
        const pg__h5_cur c = pg__h5_msg_cur(h, &w->msgs[i]);
        switch (type) {
        case DATASPACE:
        case LINK_INFO:
        case DATATYPE:
        case OLD_FILL:
        case FILL:
        case LAYOUT:
        case FILTERS:
        case SYMBOL_TABLE: break;
        case ATTRIBUTE_INFO: PG_TRY(check_attribute_info(h, c, err)); break;
        default: PG_TRY(check_minor(h, type, c, err));
        }
    }
done:
    return st;
}

pg_status pg__h5_object_read(pg__h5 *h, uint32_t depth, pg_err *err)
{
    pg_status st = PG_OK;
    singles m = {{NULL}};
    PG_TRY(sort_messages(h, &m, err));
    const int dataset = m.of[LAYOUT] != NULL, group = m.of[SYMBOL_TABLE] || m.of[LINK_INFO];
    if (m.of[DATATYPE] && !dataset && !group && !m.of[DATASPACE])
        PG_H5_UNCOVERED("committed datatype is not supported");
    PG_H5_NEED(dataset + group == 1, "neither a group nor a dataset");
    PG_H5_NEED(!m.of[SYMBOL_TABLE] || !m.of[LINK_INFO], "both an old and a new group");
    PG_H5_NEED(dataset || (!m.of[DATASPACE] && !m.of[DATATYPE] && !m.of[FILTERS]),
               "group with the shape, type or filters of a dataset");
    PG_TRY(read_attributes(h, err));
    if (dataset) {
        PG_TRY(read_dataset(h, &m, err));
    } else if (m.of[SYMBOL_TABLE]) {
        pg__h5_cur c = pg__h5_msg_cur(h, m.of[SYMBOL_TABLE]);
        PG_TRY(pg__h5_group_old(h, &c, depth, err));
    } else {
        PG_TRY(pg__h5_group_new(h, depth, err));
    }
done:
    return st;
}
