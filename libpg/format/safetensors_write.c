/* safetensors_write.c - writes safetensors: tensors in the plan's order, without gaps, the header
 * padded by spaces so that the data begins at a multiple of 8.
 *
 * The metadata is copied as text. safetensors.torch.save_model() records there which names share a
 * tensor ("out.weight": "emb.weight", the second is stored), so if a plan renames tensors, such
 * pairs are renamed, too. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "format/copy.h"
#include "format/safetensors.h"

/* --- metadata -------------------------------------------------------------------------------- */

typedef struct renamed {
    const char *from, *to;
} renamed;

static int by_from(const void *a, const void *b)
{
    return strcmp(((const renamed *)a)->from, ((const renamed *)b)->from);
}

/* Appends `name` as JSON, changed as r changed its tensor: with the same prefix removed or added; a
 * name without that prefix is unchanged. */
static pg_status quote_alike(pg__str *out, const char *name, const renamed *r, pg_err *err)
{
    const size_t n_from = strlen(r->from), n_to = strlen(r->to);
    pg__str text = {0};
    pg_status st = PG_OK;
    if (n_from >= n_to && pg__ends_with(r->from, r->to)) {
        const size_t cut = strncmp(name, r->from, n_from - n_to) == 0 ? n_from - n_to : 0;
        PG_TRY(pg__str_puts(&text, name + cut, err));
    } else {
        if (pg__ends_with(r->to, r->from))
            PG_TRY(pg__str_add(&text, r->to, n_to - n_from, err));
        PG_TRY(pg__str_puts(&text, name, err));
    }
    PG_TRY(pg__json_quote(out, text.s, text.n, err));
done:
    pg__str_fini(&text);
    return st;
}

/* Appends one member of the metadata. */
static pg_status add_member(pg__str *out, const pg__json_walk *w, const renamed *list, size_t n,
                            pg_err *err)
{
    pg__str name = {0}, other = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__json_unquote(&name, w->text, w->value, err));
    const renamed key = {.from = name.s};
    const renamed *r = n ? bsearch(&key, list, n, sizeof *list, by_from) : NULL;
    if (!r || strcmp(r->from, r->to) == 0) {
        PG_TRY(pg__str_add(out, w->text + w->key.off, w->key.n, err));
        PG_TRY(pg__str_puts(out, ":", err));
        PG_TRY(pg__str_add(out, w->text + w->value.off, w->value.n, err));
        goto done;
    }
    PG_TRY(pg__json_unquote(&other, w->text, w->key, err));
    PG_TRY(quote_alike(out, other.s, r, err));
    PG_TRY(pg__str_puts(out, ":", err));
    PG_TRY(pg__json_quote(out, r->to, strlen(r->to), err));
done:
    pg__str_fini(&name);
    pg__str_fini(&other);
    return st;
}

/* The metadata of the output, "" if there is none. Metadata of other formats is not copied. */
static pg_status make_metadata(pg__str *out, const pg__plan *plan, pg_err *err)
{
    size_t n_text = 0, n_changed = 0;
    const char *text = pg_store_text(plan->src, PG_TEXT_METADATA, &n_text);
    pg_status st = PG_OK;
    renamed *list = NULL;
    const char *name = pg_store_format(plan->src);
    const pg__format *format = pg__format_of(plan->src);
    if (!text || (strcmp(name, pg__fmt_safetensors.name) != 0 &&
                  strcmp(name, pg__fmt_npy_shards.name) != 0 && strcmp(name, PG_CONVERTED) != 0 &&
                  !(format && !format->write))) /* read only: PyTorch's, NumPy's */
        return PG_OK;
    list = pg__mem_array(plan->n_items, sizeof *list);
    if (!list)
        return pg__nomem(err);
    for (size_t i = 0; i < plan->n_items; i++) {
        list[i].from = pg__store_tensor(plan->src, plan->items[i].src)->name;
        list[i].to = plan->items[i].name;
        n_changed += strcmp(list[i].from, list[i].to) != 0;
    }
    if (n_changed == 0) {
        st = pg__str_add(out, text, n_text, err);
        goto done;
    }
    qsort(list, plan->n_items, sizeof *list, by_from);
    PG_TRY(pg__str_puts(out, "{", err));
    for (pg__json_walk w = pg__json_walk_of(text, (pg__json_span){0, n_text});
         pg__json_walk_next(&w);) {
        if (out->n > 1)
            PG_TRY(pg__str_puts(out, ",", err));
        PG_TRY(add_member(out, &w, list, plan->n_items, err));
    }
    PG_TRY(pg__str_puts(out, "}", err));
done:
    pg__mem_free(list);
    return st;
}

pg_status pg__st_verify(pg_store *out, const pg__plan *plan, pg_err *err)
{
    size_t n = 0;
    pg__str want = {0};
    pg_status st = PG_OK;
    const char *got = pg_store_text(out, PG_TEXT_METADATA, &n);
    PG_TRY(make_metadata(&want, plan, err));
    if (n != want.n || (n && memcmp(got, want.s, n) != 0))
        PG_FAIL(PG_E_IO, PG_ST_METADATA ": it differs from the plan; nothing written");
done:
    pg__str_fini(&want);
    return st;
}

/* --- header and data ------------------------------------------------------------------------- */

/* Appends the entry of one tensor whose data begins at *off, and advances *off past it. */
static pg_status add_entry(pg__str *h, const pg_weight *w, const char *name, uint64_t *off,
                           pg_err *err)
{
    pg_status st = PG_OK;
    const uint64_t begin = *off;
    if (strcmp(name, PG_ST_METADATA) == 0)
        PG_FAIL(PG_E_ARG, "%s: no tensor can have this name in safetensors", name);
    if (__builtin_add_overflow(begin, w->n_bytes, off) || *off > INT64_MAX / 2)
        PG_FAIL(PG_E_LIMIT, "%s: too large", PG_SHOW(name));
    if (h->n > 1)
        PG_TRY(pg__str_puts(h, ",", err));
    PG_TRY(pg__json_quote(h, name, strlen(name), err));
    PG_TRY(pg__str_printf(h, err, ":{\"dtype\":\"%s\",\"shape\":[", pg__st_dtype_word(w->dtype)));
    for (uint32_t k = 0; k < w->rank; k++)
        PG_TRY(pg__str_printf(h, err, "%s%" PRIu64, k ? "," : "", w->dims[k]));
    PG_TRY(pg__str_printf(h, err, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, *off));
done:
    return st;
}

/* The header, preceded by its length; places gets each tensor's offset from the data's start. */
static pg_status make_header(pg__str *h, pg__placed *places, uint64_t *n_data, const pg__plan *plan,
                             pg_err *err)
{
    unsigned char length[8] = {0};
    pg__str text = {0}, metadata = {0};
    pg_status st = PG_OK;
    PG_TRY(make_metadata(&metadata, plan, err));
    PG_TRY(pg__str_puts(&text, "{", err));
    if (metadata.n) {
        PG_TRY(pg__str_puts(&text, "\"" PG_ST_METADATA "\":", err));
        PG_TRY(pg__str_add(&text, metadata.s, metadata.n, err));
    }
    for (size_t i = 0; i < plan->n_items; i++) {
        const size_t src = plan->items[i].src;
        if (pg__store_big_endian(plan->src, src))
            PG_FAIL(PG_E_UNSUPPORTED, "%s: big-endian data has no place in safetensors",
                    PG_SHOW(plan->items[i].name));
        places[i] = (pg__placed){.tensor = src, .off = *n_data};
        PG_TRY(
            add_entry(&text, pg__store_tensor(plan->src, src), plan->items[i].name, n_data, err));
    }
    PG_TRY(pg__str_puts(&text, "}", err));
    while (text.n % PG_ST_ALIGN)
        PG_TRY(pg__str_puts(&text, " ", err));
    if (text.n > PG_LIMIT_ST_HEADER || text.n > PG_LIMIT_JSON_BYTES)
        PG_FAIL(PG_E_LIMIT, "header: %s bytes, at most %s can be read", PG_NUM(text.n),
                PG_NUM(PG_LIMIT_JSON_BYTES));
    pg__put_le(length, text.n, sizeof length);
    PG_TRY(pg__str_add(h, (const char *)length, sizeof length, err));
    PG_TRY(pg__str_add(h, text.s, text.n, err));
done:
    pg__str_fini(&text);
    pg__str_fini(&metadata);
    return st;
}

pg_status pg__st_write(pg__sink *sink, const pg__plan *plan, pg_err *err)
{
    pg__str h = {0};
    uint64_t n_data = 0;
    pg_status st = PG_OK;
    pg__placed *places = pg__mem_array(plan->n_items, sizeof *places);
    if (!places)
        return pg__nomem(err);
    for (size_t i = 0; i < pg_store_n_state(plan->src); i++)
        if (pg__plan_keeps_state(plan, i))
            PG_FAIL(PG_E_UNSUPPORTED, "optimizer state has no place in safetensors");
    PG_TRY(make_header(&h, places, &n_data, plan, err));
    if (!plan->layout_only)
        PG_TRY(pg__sink_reserve(sink, h.n + n_data, err));
    PG_TRY(pg__sink_write(sink, 0, h.s, h.n, err));
    for (size_t i = 0; i < plan->n_items; i++)
        places[i].off += h.n;
    if (plan->layout_only)
        PG_TRY(pg__sink_extend(sink, h.n + n_data, err));
    else
        PG_TRY(pg__copy_tensors(sink, plan->src, places, plan->n_items, err));
done:
    pg__str_fini(&h);
    pg__mem_free(places);
    return st;
}
