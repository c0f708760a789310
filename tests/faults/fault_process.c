/* fault_process.c - the threads that faultrun traces, their memory and their descriptors. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "faultrun.h"

static struct th *ths;
struct th *th_get(pid_t t)
{
    for (struct th *p = ths; p; p = p->next)
        if (p->tid == t)
            return p;
    struct th *p = calloc(1, sizeof *p);
    if (!p)
        die("calloc");
    p->tid = t;
    p->next = ths;
    ths = p;
    return p;
}
int th_is_known(pid_t t)
{
    for (const struct th *q = ths; q; q = q->next)
        if (q->tid == t)
            return 1;
    return 0;
}
void th_kill_all(void)
{
    for (const struct th *p = ths; p; p = p->next)
        kill(p->tid, SIGKILL);
}
void th_del(pid_t t)
{
    for (struct th **q = &ths; *q; q = &(*q)->next)
        if ((*q)->tid == t) {
            struct th *p = *q;
            *q = p->next;
            free(p);
            return;
        }
}

int rdmem(pid_t pid, unsigned long addr, void *b, size_t n)
{
    struct iovec l = {b, n}, r = {(void *)addr, n};
    return process_vm_readv(pid, &l, 1, &r, 1, 0) == (ssize_t)n ? 0 : -1;
}
static void rdstr(pid_t pid, unsigned long addr, char *b, size_t n)
{
    size_t i = 0;
    b[0] = 0;
    while (i + 1 < n) {
        size_t k = 256 - ((addr + i) & 255);
        if (k > n - 1 - i)
            k = n - 1 - i;
        if (rdmem(pid, addr + i, b + i, k))
            break;
        char *z = memchr(b + i, 0, k);
        if (z)
            return;
        i += k;
    }
    b[i < n ? i : n - 1] = 0;
}
void fdpath(pid_t pid, int fd, char *out)
{
    char l[64];
    snprintf(l, sizeof l, "/proc/%d/fd/%d", pid, fd);
    ssize_t k = readlink(l, out, PATH_MAX - 1);
    out[k > 0 ? k : 0] = 0;
}
void absat(pid_t pid, int dfd, unsigned long addr, char *out)
{
    char p[PATH_MAX], d[PATH_MAX];
    rdstr(pid, addr, p, sizeof p);
    if (p[0] == '/') {
        snprintf(out, PATH_MAX, "%s", p);
        return;
    }
    if (dfd == AT_FDCWD) {
        char l[64];
        snprintf(l, sizeof l, "/proc/%d/cwd", pid);
        ssize_t k = readlink(l, d, sizeof d - 1);
        d[k > 0 ? k : 0] = 0;
    } else
        fdpath(pid, dfd, d);
    if (!p[0]) {
        snprintf(out, PATH_MAX, "%s", d);
        return;
    }
    size_t dl = strlen(d);
    if (dl + 1 + strlen(p) >= PATH_MAX) {
        out[0] = 0;
        return;
    }
    memcpy(out, d, dl);
    out[dl] = '/';
    strcpy(out + dl + 1, p);
}
long fdpos(pid_t pid, int fd)
{
    char l[64], b[256];
    snprintf(l, sizeof l, "/proc/%d/fdinfo/%d", pid, fd);
    int f = open(l, O_RDONLY | O_CLOEXEC);
    if (f < 0)
        return -1;
    ssize_t k = read(f, b, sizeof b - 1);
    close(f);
    if (k <= 0)
        return -1;
    b[k] = 0;
    char *q = strstr(b, "pos:");
    return q ? atol(q + 4) : -1;
}
int fdappend(pid_t pid, int fd)
{
    char l[64], b[256];
    snprintf(l, sizeof l, "/proc/%d/fdinfo/%d", pid, fd);
    int f = open(l, O_RDONLY | O_CLOEXEC);
    if (f < 0)
        return 0;
    ssize_t k = read(f, b, sizeof b - 1);
    close(f);
    if (k <= 0)
        return 0;
    b[k] = 0;
    char *q = strstr(b, "flags:");
    return q && (strtol(q + 6, NULL, 8) & O_APPEND);
}

unsigned long open_flags(pid_t pid, const struct th *t)
{
    uint64_t how = 0;
    switch (t->sc->nr) {
    case SYS_open: return t->a[1];
    case SYS_creat: return O_CREAT | O_TRUNC;
    case SYS_openat: return t->a[2];
    default: rdmem(pid, t->a[2], &how, sizeof how); return how;
    }
}
int opens_for_change(pid_t pid, const struct th *t)
{
    const unsigned long fl = open_flags(pid, t);
    return t->sc->nr == SYS_creat || (fl & O_ACCMODE) != O_RDONLY || (fl & (O_CREAT | O_TRUNC));
}
