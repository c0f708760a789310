/* image_jpeg.c - JPEG through libjpeg, with the settings of tf.io.decode_image(): the fast integer
 * transform, smooth upsampling of colours. What libjpeg only warns about (data that end too early)
 * is an error: nobody must train with a picture that is half grey. */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/image.h"

#ifdef PG_HAVE_JPEG
#include <jpeglib.h>
#include <setjmp.h>

/* Variables that must survive a longjmp are here, not local. */
typedef struct reader {
    struct jpeg_error_mgr errors; /* first: libjpeg passes its address around */
    struct jpeg_decompress_struct jpeg;
    jmp_buf back;
    const unsigned char *bytes;
    size_t n;
    pg__image *image;
    pg_status st;
    pg_err *err;
} reader;

static void on_error(j_common_ptr jpeg)
{
    reader *r = (reader *)(void *)jpeg->err;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    r->st = pg_fail(r->err, PG_E_FORMAT, "damaged JPEG: %s", PG_SHOW(text));
    longjmp(r->back, 1);
}

/* libjpeg's own memory: it keeps a progressive picture whole. */
#define MAX_JPEG_MEMORY (512L << 20)

static void on_message(j_common_ptr jpeg, int level)
{
    if (level < 0) /* a warning: the data are damaged */
        on_error(jpeg);
}

static void read_jpeg(reader *r)
{
    struct jpeg_decompress_struct *j = &r->jpeg;
    if (setjmp(r->back))
        return;
    jpeg_create_decompress(j);
    jpeg_mem_src(j, r->bytes, r->n);
    (void)jpeg_read_header(j, TRUE);
    if (j->jpeg_color_space == JCS_CMYK || j->jpeg_color_space == JCS_YCCK) {
        r->st = pg_fail(r->err, PG_E_UNSUPPORTED, "is a JPEG for printing (CMYK): make it RGB");
        return;
    }
    j->out_color_space = r->image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    j->dct_method = JDCT_IFAST;
    r->image->width = j->image_width; /* nothing is scaled */
    r->image->height = j->image_height;
    if ((r->st = pg__image_alloc(r->image, r->err)) != PG_OK) /* before libjpeg allocates memory */
        return;
    j->mem->max_memory_to_use = MAX_JPEG_MEMORY;
    (void)jpeg_start_decompress(j);
    while (j->output_scanline < j->output_height) {
        JSAMPROW row =
            r->image->pixels + (size_t)j->output_scanline * r->image->width * r->image->channels;
        (void)jpeg_read_scanlines(j, &row, 1);
    }
    (void)jpeg_finish_decompress(j);
}

pg_status pg__jpeg_decode(pg__image *out, const unsigned char *bytes, size_t n, size_t channels,
                          pg_err *err)
{
    if (channels == 4)
        return pg_fail(err, PG_E_MISMATCH, "is a JPEG, which has no fourth channel");
    reader *r = pg__mem_array(1, sizeof *r);
    if (!r)
        return pg__nomem(err);
    out->channels = channels;
    r->bytes = bytes;
    r->n = n;
    r->image = out;
    r->err = err;
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
    read_jpeg(r);
    jpeg_destroy_decompress(&r->jpeg);
    const pg_status st = r->st;
    pg__mem_free(r);
    return st;
}

#else

pg_status pg__jpeg_decode(pg__image *out, const unsigned char *bytes, size_t n, size_t channels,
                          pg_err *err)
{
    (void)out, (void)bytes, (void)n, (void)channels;
    return pg_fail(err, PG_E_UNSUPPORTED, "is a JPEG picture; this build was made without libjpeg");
}

#endif
