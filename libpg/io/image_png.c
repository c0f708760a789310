/* image_png.c - PNG through libpng: palettes, grey, 16 bits and interlacing become rows of bytes.
 * Colours are used as stored, as in tf.io.decode_png(): no gamma is applied, and opacity is dropped
 * unless asked for. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/image.h"

#ifdef PG_HAVE_PNG
#include <png.h>

#define RED   0.299 /* weights of red and green in grey, as in TensorFlow; blue is the rest */
#define GREEN 0.587

/* Variables that must survive a longjmp are here, not local. */
typedef struct reader {
    const unsigned char *bytes;
    size_t n, at;
    png_structp png;
    png_infop info;
    png_bytep *rows;
    pg__image *image;
    pg_status st;
    pg_err *err;
} reader;

static void on_error(png_structp png, png_const_charp what)
{
    reader *r = png_get_error_ptr(png);
    r->st = pg_fail(r->err, PG_E_FORMAT, "damaged PNG: %s", PG_SHOW(what));
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp what)
{
    (void)png, (void)what;
}

static void give_bytes(png_structp png, png_bytep to, png_size_t n)
{
    reader *r = png_get_io_ptr(png);
    if (n > r->n - r->at)
        png_error(png, "it ends too early");
    memcpy(to, r->bytes + r->at, n);
    r->at += n;
}

/* Converts everything to 8 bits and the wanted number of channels. */
static void convert(reader *r)
{
    const png_byte type = png_get_color_type(r->png, r->info);
    const int has_alpha =
        type & PNG_COLOR_MASK_ALPHA || png_get_valid(r->png, r->info, PNG_INFO_tRNS);
    png_set_expand(r->png);
    png_set_strip_16(r->png);
    if (r->image->channels >= 3 && !(type & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(r->png);
    if (r->image->channels == 1 && type & PNG_COLOR_MASK_COLOR)
        png_set_rgb_to_gray(r->png, PNG_ERROR_ACTION_NONE, RED, GREEN);
    if (r->image->channels < 4 && has_alpha)
        png_set_strip_alpha(r->png);
    if (r->image->channels == 4 && !has_alpha)
        png_set_add_alpha(r->png, 255, PNG_FILLER_AFTER);
    (void)png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
}

static void read_png(reader *r)
{
    if (setjmp(png_jmpbuf(r->png)))
        return;
    png_set_read_fn(r->png, r, give_bytes);
    png_set_user_limits(r->png, 1u << 20, 1u << 20);
    png_set_chunk_malloc_max(r->png, 8u << 20);
    png_read_info(r->png, r->info);
    r->image->width = png_get_image_width(r->png, r->info);
    r->image->height = png_get_image_height(r->png, r->info);
    convert(r);
    const size_t row_bytes = r->image->width * r->image->channels;
    if (png_get_rowbytes(r->png, r->info) != row_bytes)
        png_error(r->png, "pixels of an unknown kind");
    if ((r->st = pg__image_alloc(r->image, r->err)) != PG_OK)
        return;
    r->rows = pg__mem_array(r->image->height, sizeof *r->rows);
    if (!r->rows) {
        r->st = pg__nomem(r->err);
        return;
    }
    for (size_t y = 0; y < r->image->height; y++)
        r->rows[y] = r->image->pixels + y * row_bytes;
    png_read_image(r->png, r->rows);
    png_read_end(r->png, NULL);
}

pg_status pg__png_decode(pg__image *out, const unsigned char *bytes, size_t n, size_t channels,
                         pg_err *err)
{
    reader r = {.bytes = bytes, .n = n, .image = out, .err = err};
    out->channels = channels;
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (!r.info)
        r.st = pg__nomem(err);
    else
        read_png(&r);
    png_destroy_read_struct(&r.png, &r.info, NULL);
    pg__mem_free(r.rows);
    return r.st;
}

#else

pg_status pg__png_decode(pg__image *out, const unsigned char *bytes, size_t n, size_t channels,
                         pg_err *err)
{
    (void)out, (void)bytes, (void)n, (void)channels;
    return pg_fail(err, PG_E_UNSUPPORTED, "is a PNG picture; this build was made without libpng");
}

#endif
