/* fuzz_resume.c - any bytes as the state of a run (resume.pg): every part that is named must be
 * readable from its first byte to its last, and not one further. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "keep.h"
#include "train/model/resume_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(int holds)
{
    if (!holds)
        abort();
}

static void read_parts(const pg__resume_file *f)
{
    pg_err err = {0};
    for (size_t i = 0; i < f->n_parts; i++) {
        const char *name = f->parts[i].name;
        const uint64_t n_bytes = pg__resume_file_bytes(f, name);
        char *text = NULL, after;
        size_t n_text = 0;
        require(strlen(name) < sizeof f->parts[i].name);
        require(pg__resume_file_text(f, name, &text, &n_text, &err) == PG_OK);
        require(n_text == n_bytes && text[n_text] == '\0');
        require(pg__resume_file_read(f, name, n_bytes, &after, 1, &err) == PG_E_FORMAT);
        pg__mem_free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    pg_err err = {0};
    pg__io *io = NULL;
    pg__resume_file f = {.io = NULL};
    if (pg__io_open_mem(&io, data, n, &err) != PG_OK)
        return 0;
    if (pg__resume_file_open_io(&f, io, &err) == PG_OK)
        keep(data, n), read_parts(&f);
    else
        require(err.code && err.msg[0] && !strchr(err.msg, '\n') && !f.io);
    pg__resume_file_close(&f);
    pg__io_close(io);
    return 0;
}
