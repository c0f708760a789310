/* usage: cachectl warm|cold FILE...
 *
 * Puts files into the page cache, or out of it; complains of what stays in it all the same. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void warm(int fd)
{
    static char buf[1 << 20];
    while (read(fd, buf, sizeof buf) > 0)
        ;
}

static void cold(int fd, const char *name)
{
    struct stat sb;
    size_t n_in = 0;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fstat(fd, &sb) || sb.st_size == 0)
        return;
    const size_t size = (size_t)sb.st_size, n = (size + 4095) / 4096;
    unsigned char *in = calloc(n, 1);
    void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (in && p != MAP_FAILED && mincore(p, size, in) == 0)
        for (size_t i = 0; i < n; i++)
            n_in += in[i] & 1;
    if (n_in > n / 20 + 8)
        fprintf(stderr, "cachectl: %s: %zu of %zu pages stay in memory\n", name, n_in, n);
    if (p != MAP_FAILED)
        munmap(p, size);
    free(in);
}

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        const int fd = open(argv[i], O_RDONLY);
        if (fd < 0) {
            perror(argv[i]);
            return 1;
        }
        if (strcmp(argv[1], "cold") == 0)
            cold(fd, argv[i]);
        else
            warm(fd);
        close(fd);
    }
    return 0;
}
