/* fmt_npy_shards.c - a model that pgsplit cut into .npy or .npz files, opened through its
 * manifest.json (manifest.h). pg_split_file() writes it, because it is a folder, not a file. */
#include <string.h>

#include "base/mem.h"
#include "base/try.h"
#include "format/shards.h"

static int probe(const uint8_t *head, size_t n)
{
    size_t i = 0;
    while (i < n && (head[i] == ' ' || head[i] == '\t' || head[i] == '\n' || head[i] == '\r'))
        i++;
    return i < n && head[i] == '{';
}

static pg_status open_manifest(pg_store **out, pg__io *io, const char *path,
                               const pg_open_opts *opts, pg_err *err)
{
    pg_status st = PG_OK;
    pg__shards *s = NULL;
    (void)opts;
    if (!path)
        return pg_fail(err, PG_E_UNKNOWN, "a manifest is read from a file, beside its shards");
    PG_TRY(pg__shards_open(&s, io, path, NULL, NULL, err));
    PG_TRY(pg__shards_store(out, s, err));
    s = NULL;
done:
    pg__shards_close(s);
    return st;
}

const pg__format pg__fmt_npy_shards = {
    .name = "npy-shards",
    .probe = probe,
    .open = open_manifest,
    .suffixes = "",
};
