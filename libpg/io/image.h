/* image.h - pictures as bytes: PNG through libpng, JPEG through libjpeg, if the build has them. */
#ifndef PG_IO_IMAGE_H
#define PG_IO_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "pg/err.h"

/* Rows from the top, pixels from the left, `channels` bytes each. */
typedef struct pg__image {
    size_t width, height, channels;
    unsigned char *pixels; /* released with pg__mem_free() */
} pg__image;

/* Decodes the n bytes of a file. channels: 1 grey, 3 colours, 4 with opacity (PNG only); others are
 * converted, as tf.io.decode_image() does. PG_E_UNKNOWN: neither format; PG_E_FORMAT: damaged;
 * PG_E_LIMIT: larger than 1 GiB; PG_E_UNSUPPORTED: this build lacks the library. */
pg_status pg__image_decode(pg__image *out, const unsigned char *bytes, size_t n, size_t channels,
                           pg_err *err);

/* image_png.c, image_jpeg.c */
pg_status pg__png_decode(pg__image *out, const unsigned char *bytes, size_t n, size_t channels,
                         pg_err *err);
pg_status pg__jpeg_decode(pg__image *out, const unsigned char *bytes, size_t n, size_t channels,
                          pg_err *err);

/* Allocates the pixels of an image whose sizes are set. */
pg_status pg__image_alloc(pg__image *image, pg_err *err);

#endif
