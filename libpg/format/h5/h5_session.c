/* h5_session.c - the lock around libhdf5, the only state that libpg shares between stores. While it
 * is held, libhdf5 does not print errors; a caller who uses libhdf5, too, finds the old setting
 * restored afterwards. */
#include "format/h5/h5_session.h"

#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    H5E_auto2_t print;
    void *data;
} before; /* of the holder of the lock */

void pg__h5_enter(void)
{
    (void)pthread_mutex_lock(&lock);
    (void)H5dont_atexit(); /* its cleanup at exit has crashed after failed writes */
    before.print = NULL;
    before.data = NULL;
    (void)H5Eget_auto2(H5E_DEFAULT, &before.print, &before.data);
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    (void)H5PLset_loading_state(0); /* we never want a plug-in */
}

void pg__h5_leave(void)
{
    (void)H5Eclear2(H5E_DEFAULT);
    (void)H5Eset_auto2(H5E_DEFAULT, before.print, before.data);
    (void)pthread_mutex_unlock(&lock);
}

typedef struct reason {
    char *text;
    size_t n;
    int no_memory;
} reason;

static herr_t innermost(unsigned depth, const H5E_error2_t *e, void *out)
{
    reason *r = out;
    if (depth == 0)
        (void)pg__printable(r->text, r->n, e->desc, strlen(e->desc));
    r->no_memory |= e->min_num == H5E_NOSPACE && e->maj_num == H5E_RESOURCE;
    return 0;
}

int pg__h5_reason(char *text, size_t n)
{
    reason r = {text, n, 0};
    (void)snprintf(text, n, "no reason given");
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, &r);
    return r.no_memory;
}
