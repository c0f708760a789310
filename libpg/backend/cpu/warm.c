/* warm.c - see warm.h. */
#include "backend/cpu/warm.h"

#include <stddef.h>

#ifdef PG_HAVE_ONEDNN
#include "backend/cpu/gemm.h"
#include "base/mem.h"
#include "base/thread.h"

struct pg__warm {
    pthread_t thread;
};

static void *make_one(void *unused)
{
    enum { N = 16 };
    static const float zeros[N * N];
    float product[N * N];
    (void)unused;
    pg__gemm(N, N, N, 1, (pg__mat){zeros, N, 0}, (pg__mat){zeros, N, 0}, 0, product, N);
    return NULL;
}

pg__warm *pg__warm_begin(void)
{
    pg__warm *w = pg__mem_array(1, sizeof *w);
    if (w && pg__thread_begin(&w->thread, make_one, NULL) != 0) {
        pg__mem_free(w);
        w = NULL;
    }
    return w;
}

void pg__warm_end(pg__warm *w)
{
    if (w)
        (void)pthread_join(w->thread, NULL);
    pg__mem_free(w);
}
#else
pg__warm *pg__warm_begin(void)
{
    return NULL;
}

void pg__warm_end(pg__warm *w)
{
    (void)w;
}
#endif
