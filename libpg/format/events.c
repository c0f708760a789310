/* events.c - TensorBoard's event files.
 *
 * A file is a row of records (TensorFlow, core/lib/io/record_writer.h), numbers little-endian:
 *
 *     u64 length, u32 masked CRC-32C of those 8 bytes, bytes, u32 masked CRC-32C of the bytes
 *
 * where masked means rotated right by 15 bits, plus 0xa282ead8 (core/lib/hash/crc32c.h). The bytes
 * are a protocol buffer "Event" (core/util/event.proto); fields used, by number:
 *
 *     Event           1 double wall_time, 2 varint step, 3 string file_version, 5 Summary,
 *                     10 SourceMetadata {1 string writer}
 *     Summary         1 Value {1 string tag, 8 TensorProto, 9 SummaryMetadata}
 *     TensorProto     1 varint dtype (1 float, 2 double, 7 string),
 *                     2 TensorShapeProto {2 Dim {1 varint size}}, 4 bytes tensor_content,
 *                     8 string string_val
 *     SummaryMetadata 1 PluginData {1 string plugin_name, 2 bytes content}
 *
 * A field is a varint number * 8 + type (0 varint, 1 eight bytes, 2 length and bytes). The order is
 * that of TensorFlow 2.15's writer, so that equal events are equal bytes. */
#include "format/events.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/try.h"
#include "io/folder.h"

enum { DOUBLE_TYPE = 1, BYTES_TYPE = 2 };
enum { FLOAT_TENSOR = 1, DOUBLE_TENSOR = 2, STRING_TENSOR = 7 };

/* ---- protocol buffers ---- */

/* A message that grows; the first failure is kept. */
typedef struct message {
    pg__str s;
    pg_status st;
} message;

static void put(message *m, const void *p, size_t n)
{
    if (m->st == PG_OK)
        m->st = pg__str_add(&m->s, p, n, NULL);
}

static void put_varint(message *m, uint64_t v)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; v > 127; v >>= 7)
        bytes[n++] = (unsigned char)(v | 128);
    bytes[n++] = (unsigned char)v;
    put(m, bytes, n);
}

static void put_number(message *m, unsigned field, uint64_t v)
{
    put_varint(m, field << 3);
    put_varint(m, v);
}

static void put_bytes(message *m, unsigned field, const void *p, size_t n)
{
    put_varint(m, field << 3 | BYTES_TYPE);
    put_varint(m, n);
    put(m, p, n);
}

/* A message inside a message; it is released. */
static void put_message(message *m, unsigned field, message *inner)
{
    if (m->st == PG_OK)
        m->st = inner->st;
    put_bytes(m, field, inner->s.s, inner->s.n);
    pg__str_fini(&inner->s);
}

static void put_time(message *m, double time)
{
    unsigned char bytes[8];
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    pg__put_le(bytes, bits, sizeof bytes);
    put_varint(m, 1 << 3 | DOUBLE_TYPE);
    put(m, bytes, sizeof bytes);
}

/* ---- records ---- */

static uint32_t masked_crc(const void *p, size_t n)
{
    return pg__crc32c_masked(pg__crc32c(0, p, n));
}

/* Appends the message as a record, completely or not at all, and releases it. */
static pg_status put_record(pg__str *to, message *m, pg_err *err)
{
    const size_t before = to->n;
    unsigned char head[12], foot[4];
    pg_status st = m->st;
    pg__put_le(head, m->s.n, 8);
    pg__put_le(head + 8, masked_crc(head, 8), 4);
    pg__put_le(foot, masked_crc(m->s.s, m->s.n), 4);
    if (st == PG_OK)
        st = pg__str_add(to, (const char *)head, sizeof head, NULL);
    if (st == PG_OK)
        st = pg__str_add(to, m->s.s, m->s.n, NULL);
    if (st == PG_OK)
        st = pg__str_add(to, (const char *)foot, sizeof foot, NULL);
    pg__str_fini(&m->s);
    if (st == PG_OK)
        return PG_OK;
    to->n = before;
    return pg__nomem(err);
}

/* ---- summaries ---- */

/* Writes the tensor under the event's tag, for a plugin of TensorBoard, and releases it. */
static pg_status put_summary(pg__append *to, const pg__event *e, message *tensor,
                             const char *plugin_name, const char *content, pg_err *err)
{
    message event = {0}, summary = {0}, value = {0}, metadata = {0}, plugin = {0};
    put_bytes(&plugin, 1, plugin_name, strlen(plugin_name));
    if (*content)
        put_bytes(&plugin, 2, content, strlen(content));
    put_message(&metadata, 1, &plugin);
    put_bytes(&value, 1, e->tag, strlen(e->tag));
    put_message(&value, 8, tensor);
    put_message(&value, 9, &metadata);
    put_message(&summary, 1, &value);
    put_time(&event, e->time);
    if (e->step)
        put_number(&event, 2, e->step);
    put_message(&event, 5, &summary);
    return put_record(&to->pending, &event, err);
}

pg_status pg__events_scalar(pg__append *to, const pg__event *e, float value, pg_err *err)
{
    message tensor = {0};
    unsigned char bytes[4];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    pg__put_le(bytes, bits, sizeof bytes);
    put_number(&tensor, 1, FLOAT_TENSOR);
    put_bytes(&tensor, 2, NULL, 0);
    put_bytes(&tensor, 4, bytes, sizeof bytes);
    return put_summary(to, e, &tensor, "scalars", "", err);
}

pg_status pg__events_histogram(pg__append *to, const pg__event *e,
                               const double rows[PG_EVENT_BUCKETS][3], pg_err *err)
{
    const size_t dims[] = {PG_EVENT_BUCKETS, 3};
    message tensor = {0}, shape = {0};
    unsigned char bytes[PG_EVENT_BUCKETS * 3 * 8];
    for (size_t i = 0; i < PG_EVENT_BUCKETS * 3; i++) {
        uint64_t bits;
        memcpy(&bits, &rows[i / 3][i % 3], sizeof bits);
        pg__put_le(bytes + 8 * i, bits, 8);
    }
    for (size_t i = 0; i < 2; i++) {
        message dim = {0};
        put_number(&dim, 1, dims[i]);
        put_message(&shape, 2, &dim);
    }
    put_number(&tensor, 1, DOUBLE_TENSOR);
    put_message(&tensor, 2, &shape);
    put_bytes(&tensor, 4, bytes, sizeof bytes);
    return put_summary(to, e, &tensor, "histograms", "", err);
}

pg_status pg__events_model(pg__append *to, const pg__event *e, const char *json, size_t n,
                           pg_err *err)
{
    message tensor = {0};
    put_number(&tensor, 1, STRING_TENSOR);
    put_bytes(&tensor, 2, NULL, 0);
    put_bytes(&tensor, 8, json, n);
    return put_summary(to, e, &tensor, "graph_keras_model", "1", err); /* "1": its version */
}

/* ---- files ---- */

static pg_status put_version(pg__str *to, double time, pg_err *err)
{
    message event = {0}, source = {0};
    put_bytes(&source, 1, "libpg", 5);
    put_time(&event, time);
    put_bytes(&event, 3, "brain.Event:2", 13);
    put_message(&event, 10, &source);
    return put_record(to, &event, err);
}

/* events.out.tfevents.<time>.<host>.<process>.<number>.v2, with the first free number. */
static pg_status open_new(pg__append *to, const char *folder, double time, pg_err *err)
{
    char host[256] = "";
    pg__str path = {0};
    pg_err why = {0};
    pg_status st = PG_OK;
    if (gethostname(host, sizeof host - 1) || !*host || strchr(host, '/'))
        strcpy(host, "localhost");
    for (unsigned number = 0;; number++) {
        path.n = 0;
        PG_TRY(pg__str_printf(&path, err, "%s/events.out.tfevents.%010" PRIu64 ".%s.%ld.%u.v2",
                              folder, time > 0 ? (uint64_t)time : 0, host, (long)getpid(), number));
        st = pg__append_open(to, path.s, PG_APPEND_NEW, &why);
        if (st == PG_OK || why.sys != EEXIST || number == 9999)
            break;
    }
    if (st != PG_OK && err)
        *err = why;
done:
    pg__str_fini(&path);
    return st;
}

pg_status pg__events_create(pg__append *to, const char *folder, double time, pg_err *err)
{
    pg__append fresh = {0};
    pg_status st = PG_OK;
    PG_TRY(put_version(&fresh.pending, time, err));
    if (to->pending.n)
        PG_TRY(pg__str_add(&fresh.pending, to->pending.s, to->pending.n, err));
    PG_TRY(pg__folder_make(folder, 0, err));
    PG_TRY(open_new(&fresh, folder, time, err));
    st = pg__append_flush(&fresh, err);
    if (st != PG_OK) {
        unlink(fresh.path); /* the next try makes one of its own */
        goto done;
    }
    pg__append_fini(to);
    *to = fresh;
    return PG_OK;
done:
    pg__append_fini(&fresh);
    return st;
}
