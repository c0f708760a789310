/* provenance.c - records the source of a converted safetensors file in its metadata: the name of
 * the source without folders, its CRC-32, and the version of libpg. No time and no path: the same
 * source gives the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/try.h"
#include "pg/version.h"
#include "wrap/rewrite/rewrite.h"

static pg_status sum_up(uint32_t *crc, pg__io *io, const volatile int *cancel, pg_err *err)
{
    pg_status st = PG_OK;
    unsigned char *buf = pg__mem_array(PG_COPY_BYTES, 1);
    if (!buf)
        return pg__nomem(err);
    *crc = 0;
    for (uint64_t off = 0, size = pg__io_size(io); off < size;) {
        const size_t n = size - off < PG_COPY_BYTES ? (size_t)(size - off) : PG_COPY_BYTES;
        if (pg__cancelled(cancel))
            PG_FAIL(PG_E_CANCELLED, "interrupted; nothing written");
        PG_TRY(pg__io_read(io, off, buf, n, err));
        *crc = pg__crc32(*crc, buf, n);
        off += n;
    }
done:
    pg__mem_free(buf);
    return st;
}

static pg_status add_member(pg__str *out, const char *key, const char *value, pg_err *err)
{
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(out, err, "%s\"%s\":", out->n > 1 ? "," : "", key));
    PG_TRY(pg__json_quote(out, value, strlen(value), err));
done:
    return st;
}

/* Sums the opened file, not its path: another file may have that name by now. */
pg_status pg__add_provenance(pg__str *out, const pg_store *s, const pg_write_opts *w, pg_err *err)
{
    pg__io *source = pg__store_source(s); /* of several files: their index */
    pg_status st = PG_OK;
    uint32_t crc = 0;
    char hex[9];
    if (source) {
        st = sum_up(&crc, source, w->cancel, err);
        if (st == PG_E_IO)
            pg_err_prefix(err, PG_SHOW(pg__store_path(s)));
        PG_TRY(st);
        (void)snprintf(hex, sizeof hex, "%08" PRIx32, crc);
        PG_TRY(add_member(out, "pg.source", pg__base_name(pg__store_path(s)), err));
        PG_TRY(add_member(out, "pg.crc32", hex, err));
    }
    PG_TRY(add_member(out, "pg.tool", "libpg " PG_VERSION, err));
done:
    return st;
}

pg_status pg__keep_metadata(pg__str *out, const pg_store *s, int all, pg_err *err)
{
    size_t n = 0;
    const char *text = pg_store_text(s, PG_TEXT_METADATA, &n);
    pg__str key = {0};
    pg_status st = PG_OK;
    for (pg__json_walk w = pg__json_walk_of(text, (pg__json_span){0, n}); pg__json_walk_next(&w);) {
        key.n = 0;
        PG_TRY(pg__json_unquote(&key, w.text, w.key, err));
        if (all ? strncmp(key.s, "pg.", 3) == 0 : strcmp(key.s, "format") != 0)
            continue;
        PG_TRY(pg__str_puts(out, out->n > 1 ? "," : "", err));
        PG_TRY(pg__str_add(out, w.text + w.key.off, w.key.n, err));
        PG_TRY(pg__str_puts(out, ":", err));
        PG_TRY(pg__str_add(out, w.text + w.value.off, w.value.n, err));
    }
done:
    pg__str_fini(&key);
    return st;
}

pg_status pg__note_provenance(pg_store *s, const pg_write_opts *w, pg_err *err)
{
    pg_status st = PG_OK;
    pg__str text = {0};
    PG_TRY(pg__str_puts(&text, "{", err));
    if (pg_store_text(s, PG_TEXT_METADATA, NULL))
        PG_TRY(pg__keep_metadata(&text, s, 1, err));
    PG_TRY(pg__add_provenance(&text, s, w, err));
    PG_TRY(pg__str_puts(&text, "}", err));
    PG_TRY(pg__store_set_text(s, PG_TEXT_METADATA, text.s, text.n, err));
done:
    pg__str_fini(&text);
    return st;
}
