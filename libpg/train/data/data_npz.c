/* data_npz.c - archives of NumPy arrays. Stored members are read in place; compressed ones are
 * inflated once into an unlinked temporary file, so that memory does not grow with the data. */
#include <string.h>

#include "base/str.h"
#include "base/try.h"
#include "io/zip.h"
#include "train/data/data.h"

static int claims(const unsigned char *head, size_t n)
{
    return n >= 4 && memcmp(head, "PK", 2) == 0;
}

static pg_status open_npz(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err)
{
    static const char suffix[] = ".npy";
    pg__zip *zip = NULL;
    pg__io *member = NULL;
    pg_status st = PG_OK;
    pg_err why = {0};
    (void)path, (void)state;
    PG_TRY(pg__zip_open(&zip, io, err));
    for (size_t i = 0; i < pg__zip_n(zip); i++) {
        const pg__zip_member *m = pg__zip_at(zip, i);
        const size_t n = strlen(m->name);
        if (n <= strlen(suffix) || strcmp(m->name + n - strlen(suffix), suffix) != 0)
            continue;
        PG_TRY(pg__zip_open_member(zip, i, &member, err));
        st = pg__data_add_npy(d, m->name, n - strlen(suffix), member, &why);
        if (st == PG_E_UNSUPPORTED) /* strings: reported only if they are needed */
            st = pg__data_add_unread(d, m->name, n - strlen(suffix), why.msg, &why);
        if (st != PG_OK) {
            if (err)
                *err = why;
            pg_err_prefix(err, PG_SHOW(m->name));
            goto done;
        }
        pg__io_close(member);
        member = NULL;
    }
done:
    pg__io_close(member);
    pg__zip_close(zip);
    return st;
}

const pg__source pg__source_npz = {.name = ".npz", .claims = claims, .open = open_npz};
