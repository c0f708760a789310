/* image.c - detects the format of a picture, and limits its size. */
#include "io/image.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

pg_status pg__image_alloc(pg__image *image, pg_err *err)
{
    size_t n;
    if (__builtin_mul_overflow(image->width, image->height, &n) ||
        __builtin_mul_overflow(n, image->channels, &n) || n > PG_LIMIT_IMAGE_BYTES)
        return pg_fail(err, PG_E_LIMIT, "is a picture of %zu x %zu, which is too large",
                       image->width, image->height);
    image->pixels = pg__mem_array(n, 1);
    return image->pixels ? PG_OK : pg__nomem(err);
}

pg_status pg__image_decode(pg__image *out, const unsigned char *bytes, size_t n, size_t channels,
                           pg_err *err)
{
    pg__image image = {.channels = channels};
    pg_status st;
    if (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
        st = pg__png_decode(&image, bytes, n, channels, err);
    else if (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
        st = pg__jpeg_decode(&image, bytes, n, channels, err);
    else
        return pg_fail(err, PG_E_UNKNOWN, "is neither a PNG nor a JPEG picture");
    if (st != PG_OK) {
        pg__mem_free(image.pixels);
        return st;
    }
    *out = image;
    return PG_OK;
}
