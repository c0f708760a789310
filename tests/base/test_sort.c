/* Order with a context; equal items keep theirs, as glibc's qsort_r() has it while there is memory.
 */
#include "pg_test.h"

#include "base/sort.h"

typedef struct item {
    unsigned key, number;
} item;

static int by_key(const void *a, const void *b, void *context)
{
    const item *x = a, *y = b;
    (*(size_t *)context)++;
    return (x->key > y->key) - (x->key < y->key);
}

static void every_length_is_sorted_and_stays_stable(void **state)
{
    static item v[3000];
    unsigned random = 7;
    (void)state;
    for (size_t n = 0; n <= 3000; n += n < 70 ? 1 : 293) {
        size_t n_compared = 0;
        for (size_t i = 0; i < n; i++) {
            random = random * 1103515245u + 12345u;
            v[i] = (item){random >> 24, (unsigned)i};
        }
        pg__sort(v, n, sizeof *v, by_key, &n_compared);
        for (size_t i = 1; i < n; i++) {
            assert_true(v[i - 1].key <= v[i].key);
            assert_true(v[i - 1].key < v[i].key || v[i - 1].number < v[i].number);
        }
        assert_true(n_compared <= n * 16);
    }
}

PG_TEST_MAIN(cmocka_unit_test(every_length_is_sorted_and_stays_stable))
