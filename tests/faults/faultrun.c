/* faultrun - runs a command and makes one chosen system call misbehave, kills the process there, or
 * records all file changes.
 *
 * It stops only at the system calls of the chosen classes (seccomp RET_TRACE), so an untouched call
 * costs nothing. It sees stdio, libhdf5, libzip and direct system calls alike, which an LD_PRELOAD
 * library does not. x86-64 Linux. Stores made through a shared mmap are invisible to it. */
/* clang-format off
 *   faultrun [options] -- CMD ARG...
 *     -c LIST    classes: open write fsync trunc rename unlink mkdir close read mmap stat link falloc
 *                chmod lock seek clone, or "all"
 *                (default open,write,fsync,trunc,rename,unlink,link,falloc,chmod)
 *     -p SUB     count only calls whose path (argument or descriptor's) contains SUB; repeatable
 *     -x SUB     never count calls whose path contains SUB; repeatable
 *     -w         with open: count only opens that can change something
 *     -n N       act on the N-th counted call, from 1; without it only count
 *     -s         sticky: act on the N-th and on every later one
 *     -m K       sticky, but act no more than K times
 *     -a ACTION  an error's name (ENOSPC EIO EINTR EDQUOT EACCES EROFS EMFILE ENOMEM ESTALE ...);
 *                short[:K]: the read or write moves only K bytes (default half), successfully;
 *                torn: the first one acted on like short, the others fail with EIO (with -m 2);
 *                kill: SIGKILL the whole tree before the call takes effect; killafter: right after;
 *                half: write half of the data, then SIGKILL; a signal: SIGINT SIGTERM SIGHUP ...;
 *                run:CMD: a line for the shell, run while the call waits
 *     -l FILE    log every counted call: "<n> <class> <syscall> <ret> <path> <off> <len>"
 *     -r DIR     record: DIR/log (one line per change) and DIR/data (bytes written)
 *     -t SEC     give up (SIGKILL the tree) after SEC seconds, exit 124
 *     -q         print nothing; otherwise the last line on stderr is
 *                "faultrun: counted=N acted=K status=... at=CLASS SYSCALL" (the call first acted on)
 *
 * Exit status: that of CMD, 128 + signal if it died of one, 124 on timeout, 125 on its own failure.
 * clang-format on */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum cls {
    OPEN,
    WRITE,
    FSYNC,
    TRUNC,
    RENAME,
    UNLINK,
    MKDIR,
    CLOSE,
    READ,
    MMAP,
    STAT,
    LINK,
    FALLOC,
    CHMOD,
    LOCK,
    SEEK,
    CLONE,
    NCLS
};
static const char *cls_name[NCLS] = {"open",   "write", "fsync", "trunc", "rename", "unlink",
                                     "mkdir",  "close", "read",  "mmap",  "stat",   "link",
                                     "falloc", "chmod", "lock",  "seek",  "clone"};
/* how to find the path: F = fd in arg0, P = path arg0, A = dirfd arg0 + path arg1, C = fd in arg2,
 * M = fd in arg4 (mmap) */
static const struct sc {
    long nr;
    enum cls c;
    char how;
    const char *name;
} tab[] = {
    {SYS_open, OPEN, 'P', "open"},
    {SYS_creat, OPEN, 'P', "creat"},
    {SYS_openat, OPEN, 'A', "openat"},
#ifdef SYS_openat2
    {SYS_openat2, OPEN, 'A', "openat2"},
#endif
    {SYS_write, WRITE, 'F', "write"},
    {SYS_pwrite64, WRITE, 'F', "pwrite64"},
    {SYS_writev, WRITE, 'F', "writev"},
    {SYS_pwritev, WRITE, 'F', "pwritev"},
    {SYS_pwritev2, WRITE, 'F', "pwritev2"},
    {SYS_sendfile, WRITE, 'F', "sendfile"},
    {SYS_copy_file_range, WRITE, 'C', "copy_file_range"},
    {SYS_fsync, FSYNC, 'F', "fsync"},
    {SYS_fdatasync, FSYNC, 'F', "fdatasync"},
    {SYS_msync, FSYNC, '-', "msync"},
    {SYS_sync_file_range, FSYNC, 'F', "sync_file_range"},
    {SYS_syncfs, FSYNC, 'F', "syncfs"},
    {SYS_sync, FSYNC, '-', "sync"},
    {SYS_ftruncate, TRUNC, 'F', "ftruncate"},
    {SYS_truncate, TRUNC, 'P', "truncate"},
    {SYS_rename, RENAME, 'P', "rename"},
    {SYS_renameat, RENAME, 'A', "renameat"},
    {SYS_renameat2, RENAME, 'A', "renameat2"},
    {SYS_unlink, UNLINK, 'P', "unlink"},
    {SYS_unlinkat, UNLINK, 'A', "unlinkat"},
    {SYS_rmdir, UNLINK, 'P', "rmdir"},
    {SYS_mkdir, MKDIR, 'P', "mkdir"},
    {SYS_mkdirat, MKDIR, 'A', "mkdirat"},
    {SYS_close, CLOSE, 'F', "close"},
    {SYS_read, READ, 'F', "read"},
    {SYS_pread64, READ, 'F', "pread64"},
    {SYS_readv, READ, 'F', "readv"},
    {SYS_preadv, READ, 'F', "preadv"},
    {SYS_mmap, MMAP, 'M', "mmap"},
    {SYS_stat, STAT, 'P', "stat"},
    {SYS_lstat, STAT, 'P', "lstat"},
    {SYS_fstat, STAT, 'F', "fstat"},
    {SYS_newfstatat, STAT, 'A', "newfstatat"},
    {SYS_statx, STAT, 'A', "statx"},
    {SYS_link, LINK, 'P', "link"},
    {SYS_linkat, LINK, 'A', "linkat"},
    {SYS_symlink, LINK, 'P', "symlink"},
    {SYS_symlinkat, LINK, 'P', "symlinkat"},
    {SYS_fallocate, FALLOC, 'F', "fallocate"},
    {SYS_chmod, CHMOD, 'P', "chmod"},
    {SYS_fchmod, CHMOD, 'F', "fchmod"},
    {SYS_fchmodat, CHMOD, 'A', "fchmodat"},
    {SYS_fchown, CHMOD, 'F', "fchown"},
    {SYS_flock, LOCK, 'F', "flock"},
    {SYS_fcntl, LOCK, 'F', "fcntl"},
    {SYS_lseek, SEEK, 'F', "lseek"},
    {SYS_getdents64, READ, 'F', "getdents64"},
    {SYS_access, STAT, 'P', "access"},
    {SYS_faccessat, STAT, 'A', "faccessat"},
#ifdef SYS_faccessat2
    {SYS_faccessat2, STAT, 'A', "faccessat2"},
#endif
    {SYS_readlink, STAT, 'P', "readlink"},
    {SYS_readlinkat, STAT, 'A', "readlinkat"},
    {SYS_statfs, STAT, 'P', "statfs"},
    {SYS_fstatfs, STAT, 'F', "fstatfs"},
    {SYS_ioctl, CLONE, 'F', "ioctl"}, /* FICLONE and FICLONERANGE, no others */
};
#define NTAB (sizeof tab / sizeof *tab)
static const struct {
    const char *n;
    int v;
} errs[] = {
#define E(x)  \
    {         \
#x, x \
    }
    E(ENOSPC), E(EIO),     E(EINTR),  E(EDQUOT), E(EACCES), E(EPERM),        E(EROFS),
    E(EMFILE), E(ENFILE),  E(ENOMEM), E(EFBIG),  E(EAGAIN), E(EEXIST),       E(ENOENT),
    E(ESTALE), E(ENOLCK),  E(EXDEV),  E(EBUSY),  E(ELOOP),  E(ENAMETOOLONG), E(EBADF),
    E(EINVAL), E(ENOTSUP), E(EISDIR), E(ENODEV)
#undef E
};
static const struct {
    const char *n;
    int v;
} sigs[] = {{"SIGINT", SIGINT},   {"SIGTERM", SIGTERM}, {"SIGHUP", SIGHUP},   {"SIGXFSZ", SIGXFSZ},
            {"SIGPIPE", SIGPIPE}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGBUS", SIGBUS}};

static unsigned want;
static const char *inc[16], *exc[16];
static int ninc, nexc, wonly, sticky, quiet;
static long nth, counted, acted, most = -1;
static const struct sc *first_hit;
static int act_err, act_sig, torn,
    act_kind; /* 0 none 1 errno 2 short 3 kill 4 killafter 5 half 6 signal 7 run */
static const char *act_command;
static long short_k = -1;
static FILE *logf_;
static FILE *rec, *recdata;
static pid_t root;
static volatile sig_atomic_t timed_out;

static void die(const char *m)
{
    fprintf(stderr, "faultrun: %s: %s\n", m, strerror(errno));
    exit(125);
}
static void on_alarm(int s)
{
    (void)s;
    timed_out = 1;
}

/* per-thread state */
struct th {
    pid_t tid;
    int pend; /* exit action: 1 set errno, 2 kill, 3 record/log only */
    const struct sc *sc;
    char path[PATH_MAX], path2[PATH_MAX];
    long n, off;
    unsigned long a[6];
    struct th *next;
};
static struct th *ths;
static struct th *th_get(pid_t t)
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
static void th_del(pid_t t)
{
    for (struct th **q = &ths; *q; q = &(*q)->next)
        if ((*q)->tid == t) {
            struct th *p = *q;
            *q = p->next;
            free(p);
            return;
        }
}

static int rdmem(pid_t pid, unsigned long addr, void *b, size_t n)
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
static void fdpath(pid_t pid, int fd, char *out)
{
    char l[64];
    snprintf(l, sizeof l, "/proc/%d/fd/%d", pid, fd);
    ssize_t k = readlink(l, out, PATH_MAX - 1);
    out[k > 0 ? k : 0] = 0;
}
static void absat(pid_t pid, int dfd, unsigned long addr, char *out)
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
static long fdpos(pid_t pid, int fd)
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
static int fdappend(pid_t pid, int fd)
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
static int match(const char *p)
{
    for (int i = 0; i < nexc; i++)
        if (strstr(p, exc[i]))
            return 0;
    if (!ninc)
        return 1;
    for (int i = 0; i < ninc; i++)
        if (strstr(p, inc[i]))
            return 1;
    return 0;
}
static unsigned long openat_flags(pid_t pid, const struct th *t, long nr)
{
    uint64_t how = 0;
    if (nr == SYS_openat)
        return t->a[2];
    rdmem(pid, t->a[2], &how, sizeof how);
    return how;
}
static int opens_for_change(pid_t pid, struct th *t, long nr)
{
    unsigned long fl;
    if (nr == SYS_creat)
        return 1;
    if (nr == SYS_open)
        fl = t->a[1];
    else
        fl = openat_flags(pid, t, nr);
    return (fl & O_ACCMODE) != O_RDONLY || (fl & (O_CREAT | O_TRUNC));
}

static void install(void)
{
    struct sock_filter f[NTAB + 8];
    unsigned k = 0, m = 0;
    long nrs[NTAB];
    for (unsigned i = 0; i < NTAB; i++)
        if (want >> tab[i].c & 1)
            nrs[m++] = tab[i].nr;
    f[k++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < m; i++)
        f[k++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nrs[i],
                                              (unsigned char)(m - i), 0);
    f[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    struct sock_fprog p = {(unsigned short)k, f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p))
        die("seccomp");
}
static void killtree(void)
{
    for (struct th *p = ths; p; p = p->next)
        kill(p->tid, SIGKILL);
    kill(root, SIGKILL);
}
static void esc(FILE *o, const char *s)
{
    for (; *s; s++)
        if (*s == ' ' || *s == '%' || *s == '\n' || *s == '\t')
            fprintf(o, "%%%02x", (unsigned char)*s);
        else
            fputc(*s, o);
}

static void dump_write(pid_t pid, struct th *t, long ret)
{ /* record the bytes of a finished write */
    long off = t->off;
    long nr = t->sc->nr;
    long doff = ftell(recdata);
    char *b = NULL;
    if (nr == SYS_write || nr == SYS_pwrite64) {
        b = malloc((size_t)ret + 1);
        if (!b || rdmem(pid, t->a[1], b, (size_t)ret))
            memset(b, 0xEE, (size_t)ret);
        fwrite(b, 1, (size_t)ret, recdata);
    } else if (nr == SYS_writev || nr == SYS_pwritev || nr == SYS_pwritev2) {
        struct iovec v[64];
        unsigned nv = t->a[2] > 64 ? 64 : (unsigned)t->a[2];
        rdmem(pid, t->a[1], v, nv * sizeof *v);
        long left = ret;
        for (unsigned i = 0; i < nv && left > 0; i++) {
            size_t k = v[i].iov_len > (size_t)left ? (size_t)left : v[i].iov_len;
            b = realloc(b, k + 1);
            if (rdmem(pid, (unsigned long)v[i].iov_base, b, k))
                memset(b, 0xEE, k);
            fwrite(b, 1, k, recdata);
            left -= (long)k;
        }
    } else { /* sendfile, copy_file_range, clones: read back what landed in the file */
        int f = open(t->path, O_RDONLY | O_CLOEXEC);
        b = malloc((size_t)ret + 1);
        if (f < 0 || pread(f, b, (size_t)ret, off) != ret)
            memset(b, 0xEE, (size_t)ret);
        if (f >= 0)
            close(f);
        fwrite(b, 1, (size_t)ret, recdata);
    }
    free(b);
    fprintf(rec, "%ld write ", t->n);
    esc(rec, t->path);
    fprintf(rec, " %ld %ld %ld\n", off, ret, doff);
}

/* A clone is recorded as a write of what the file then holds. */
static void dump_clone(pid_t pid, struct th *t)
{
    struct file_clone_range range = {0};
    struct stat sb;
    const int whole =
        t->a[1] == FICLONE || rdmem(pid, t->a[2], &range, sizeof range) || !range.src_length;
    if (stat(t->path, &sb))
        return;
    t->off = (long)range.dest_offset;
    dump_write(pid, t, whole ? (long)sb.st_size - t->off : (long)range.src_length);
}

/* The read or write that is about to begin moves less. */
static void cut_length(pid_t pid, struct user_regs_struct *r, long nr)
{
    unsigned long long *n = nr == SYS_copy_file_range ? &r->r8
                            : nr == SYS_sendfile      ? &r->r10
                                                      : &r->rdx;
    if (nr != SYS_write && nr != SYS_pwrite64 && nr != SYS_read && nr != SYS_pread64 &&
        nr != SYS_copy_file_range && nr != SYS_sendfile)
        return;
    const unsigned long long k = short_k >= 0 ? (unsigned long long)short_k : *n / 2;
    if (k < *n && (k || act_kind == 5)) {
        *n = k;
        ptrace(PTRACE_SETREGS, pid, 0, r);
    }
}

static void on_entry(pid_t pid)
{
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, pid, 0, &r))
        return;
    const struct sc *s = NULL;
    for (unsigned i = 0; i < NTAB; i++)
        if (tab[i].nr == (long)r.orig_rax) {
            s = &tab[i];
            break;
        }
    if (!s) {
        ptrace(PTRACE_CONT, pid, 0, 0);
        return;
    }
    struct th *t = th_get(pid);
    t->sc = s;
    t->pend = 0;
    t->path[0] = t->path2[0] = 0;
    t->off = -1;
    unsigned long a[6] = {r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9};
    memcpy(t->a, a, sizeof a);
    switch (s->how) {
    case 'F': fdpath(pid, (int)a[0], t->path); break;
    case 'C': fdpath(pid, (int)a[2], t->path); break;
    case 'P': absat(pid, AT_FDCWD, a[0], t->path); break;
    case 'A': absat(pid, (int)a[0], a[1], t->path); break;
    case 'M':
        if ((int)a[4] >= 0)
            fdpath(pid, (int)a[4], t->path);
        break;
    }
    if (s->nr == SYS_rename || s->nr == SYS_link)
        absat(pid, AT_FDCWD, a[1], t->path2);
    else if (s->nr == SYS_renameat || s->nr == SYS_renameat2 || s->nr == SYS_linkat)
        absat(pid, (int)a[2], a[3], t->path2);
    if (!(match(t->path) || (t->path2[0] && match(t->path2))) ||
        (s->c == OPEN && (wonly || rec) && !opens_for_change(pid, t, s->nr)) ||
        (s->c == CLONE && a[1] != FICLONE && a[1] != FICLONERANGE)) {
        ptrace(PTRACE_CONT, pid, 0, 0);
        return;
    }
    if (s->nr == SYS_write || s->nr == SYS_writev || s->nr == SYS_sendfile) {
        struct stat sb;
        t->off =
            fdappend(pid, (int)a[0]) && !stat(t->path, &sb) ? sb.st_size : fdpos(pid, (int)a[0]);
    } else if (s->nr == SYS_pwrite64 || s->nr == SYS_pwritev || s->nr == SYS_pwritev2)
        t->off = (long)a[3];
    else if (s->nr == SYS_copy_file_range) {
        long at; /* the caller's own offset, else the descriptor's position */
        t->off = a[3] && !rdmem(pid, a[3], &at, sizeof at) ? at : fdpos(pid, (int)a[2]);
    }
    t->n = ++counted;
    const int hit =
        nth && (counted == nth || (sticky && counted > nth && (most < 0 || acted < most)));
    if (!hit) {
        if (logf_ || rec) {
            t->pend = 3;
            ptrace(PTRACE_SYSCALL, pid, 0, 0);
        } else
            ptrace(PTRACE_CONT, pid, 0, 0);
        return;
    }
    if (!acted++)
        first_hit = s;
    if (logf_) {
        fprintf(logf_, "%ld %s %s HIT %s %ld %lu\n", t->n, cls_name[s->c], s->name, t->path, t->off,
                a[2]);
        fflush(logf_);
    }
    switch (act_kind) {
    case 1:
        r.orig_rax = (unsigned long long)-1;
        ptrace(PTRACE_SETREGS, pid, 0, &r);
        t->pend = 1;
        ptrace(PTRACE_SYSCALL, pid, 0, 0);
        return;
    case 2:
    case 5:
        cut_length(pid, &r, s->nr);
        t->pend = act_kind == 5 ? 2 : 3;
        if (torn)
            act_kind = 1;
        t->a[2] = r.rdx;
        ptrace(PTRACE_SYSCALL, pid, 0, 0);
        return;
    case 3: killtree(); return;
    case 4:
        t->pend = 2;
        ptrace(PTRACE_SYSCALL, pid, 0, 0);
        return;
    case 6:
        kill(root, act_sig);
        ptrace(PTRACE_CONT, pid, 0, 0);
        return;
    case 7:
        if (system(act_command) == -1)
            die("system");
        break;
    }
    ptrace(PTRACE_CONT, pid, 0, 0);
}
static void on_exit_stop(pid_t pid)
{
    struct th *t = th_get(pid);
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, pid, 0, &r))
        return;
    if (t->pend == 1) {
        r.rax = (unsigned long long)-(long long)act_err;
        ptrace(PTRACE_SETREGS, pid, 0, &r);
    }
    long ret = (long)r.rax;
    if (logf_ && t->pend != 1) {
        fprintf(logf_, "%ld %s %s %ld ", t->n, cls_name[t->sc->c], t->sc->name, ret);
        esc(logf_, t->path);
        fprintf(logf_, " %ld %lu\n", t->off, t->a[2]);
    }
    if (rec && ret >= 0 && t->pend != 1) {
        switch (t->sc->c) {
        case WRITE:
            if (ret > 0)
                dump_write(pid, t, ret);
            break;
        case OPEN: {
            struct stat sb;
            unsigned long fl = t->sc->nr == SYS_open    ? t->a[1]
                               : t->sc->nr == SYS_creat ? O_CREAT | O_TRUNC
                                                        : openat_flags(pid, t, t->sc->nr);
            char p[PATH_MAX];
            fdpath(pid, (int)ret, p);
            if (!stat(p, &sb) && S_ISREG(sb.st_mode)) {
                fprintf(rec, "%ld %s ", t->n, fl & O_TRUNC ? "opentrunc" : "open");
                esc(rec, p);
                fprintf(rec, "\n");
            }
            break;
        }
        case FSYNC:
            fprintf(rec, "%ld %s ", t->n, t->sc->nr == SYS_syncfs ? "syncfs" : "fsync");
            esc(rec, t->path);
            fprintf(rec, "\n");
            break;
        case TRUNC:
            fprintf(rec, "%ld trunc ", t->n);
            esc(rec, t->path);
            fprintf(rec, " %lu\n", t->a[1]);
            break;
        case FALLOC:
            fprintf(rec, "%ld falloc ", t->n);
            esc(rec, t->path);
            fprintf(rec, " %lu %lu %lu\n", t->a[1], t->a[2], t->a[3]);
            break;
        case RENAME:
            fprintf(rec, "%ld %s ", t->n,
                    t->sc->nr == SYS_renameat2 && t->a[4] & RENAME_EXCHANGE ? "exchange"
                                                                            : "rename");
            esc(rec, t->path);
            fprintf(rec, " ");
            esc(rec, t->path2);
            fprintf(rec, "\n");
            break;
        case LINK:
            fprintf(rec, "%ld link ", t->n);
            esc(rec, t->path);
            fprintf(rec, " ");
            esc(rec, t->path2);
            fprintf(rec, "\n");
            break;
        case UNLINK:
            fprintf(rec, "%ld unlink ", t->n);
            esc(rec, t->path);
            fprintf(rec, "\n");
            break;
        case MKDIR:
            fprintf(rec, "%ld mkdir ", t->n);
            esc(rec, t->path);
            fprintf(rec, "\n");
            break;
        case CLONE: dump_clone(pid, t); break;
        default: break;
        }
    }
    if (t->pend == 2) {
        killtree();
        return;
    }
    t->pend = 0;
    ptrace(PTRACE_CONT, pid, 0, 0);
}
static int set_action(const char *name)
{
    act_kind = 0;
    for (unsigned i = 0; i < sizeof errs / sizeof *errs; i++)
        if (!strcmp(name, errs[i].n)) {
            act_kind = 1;
            act_err = errs[i].v;
        }
    for (unsigned i = 0; i < sizeof sigs / sizeof *sigs; i++)
        if (!strcmp(name, sigs[i].n)) {
            act_kind = 6;
            act_sig = sigs[i].v;
        }
    if (!strncmp(name, "short", 5)) {
        act_kind = 2;
        if (name[5] == ':')
            short_k = atol(name + 6);
    }
    if (!strcmp(name, "torn")) {
        act_kind = 2;
        act_err = EIO;
        torn = 1;
    }
    if (!strncmp(name, "run:", 4)) {
        act_kind = 7;
        act_command = name + 4;
    }
    if (!strcmp(name, "kill"))
        act_kind = 3;
    if (!strcmp(name, "killafter"))
        act_kind = 4;
    if (!strcmp(name, "half"))
        act_kind = 5;
    if (!act_kind)
        fprintf(stderr, "faultrun: unknown action '%s'\n", name);
    return act_kind != 0;
}

static int set_classes(const char *classes)
{
    char b[256];
    if (!strcmp(classes, "all")) {
        want = (1u << NCLS) - 1;
        return 1;
    }
    snprintf(b, sizeof b, "%s", classes);
    for (char *p = strtok(b, ","); p; p = strtok(NULL, ",")) {
        int i = 0;
        while (i < NCLS && strcmp(p, cls_name[i]) != 0)
            i++;
        if (i == NCLS) {
            fprintf(stderr, "faultrun: unknown class '%s'\n", p);
            return 0;
        }
        want |= 1u << i;
    }
    return 1;
}

static void open_record(const char *dir)
{
    char b[PATH_MAX];
    want |= 1u << OPEN | 1u << WRITE | 1u << FSYNC | 1u << TRUNC | 1u << RENAME | 1u << UNLINK |
            1u << LINK | 1u << FALLOC | 1u << MKDIR | 1u << CLONE;
    mkdir(dir, 0755);
    snprintf(b, sizeof b, "%s/log", dir);
    rec = fopen(b, "we");
    snprintf(b, sizeof b, "%s/data", dir);
    recdata = fopen(b, "we");
    if (!rec || !recdata)
        die(dir);
}

/* Returns 0 after a message. */
static int read_options(int ac, char **av, int *tmo)
{
    const char *recdir = NULL, *classes = "open,write,fsync,trunc,rename,unlink,link,"
                                          "falloc,chmod";
    int o;
    while ((o = getopt(ac, av, "+c:p:x:wn:sm:a:l:r:t:q")) != -1)
        switch (o) {
        case 'c': classes = optarg; break;
        case 'p':
            if (ninc < 16)
                inc[ninc++] = optarg;
            break;
        case 'x':
            if (nexc < 16)
                exc[nexc++] = optarg;
            break;
        case 'w': wonly = 1; break;
        case 'n': nth = atol(optarg); break;
        case 's': sticky = 1; break;
        case 'm':
            sticky = 1;
            most = atol(optarg);
            break;
        case 'l':
            logf_ = fopen(optarg, "w");
            if (!logf_)
                die(optarg);
            break;
        case 'r': recdir = optarg; break;
        case 't': *tmo = atoi(optarg); break;
        case 'q': quiet = 1; break;
        case 'a':
            if (!set_action(optarg))
                return 0;
            break;
        default: return 0;
        }
    if (optind >= ac) {
        fprintf(stderr, "usage: faultrun [options] -- CMD...\n");
        return 0;
    }
    if (!set_classes(classes))
        return 0;
    if (recdir)
        open_record(recdir);
    return 1;
}

static void start(char **command, int tmo)
{
    int st;
    root = fork();
    if (root < 0)
        die("fork");
    if (!root) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            die("traceme");
        raise(SIGSTOP);
        install();
        execvp(command[0], command);
        fprintf(stderr, "faultrun: %s: %s\n", command[0], strerror(errno));
        _exit(125);
    }
    if (waitpid(root, &st, 0) != root || !WIFSTOPPED(st))
        die("first stop");
    ptrace(PTRACE_SETOPTIONS, root, 0,
           PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK |
               PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL);
    th_get(root);
    if (tmo) {
        struct sigaction sa;
        memset(&sa, 0, sizeof sa);
        sa.sa_handler = on_alarm;
        sigaction(SIGALRM, &sa, NULL);
        alarm((unsigned)tmo);
    }
    ptrace(PTRACE_CONT, root, 0, 0);
}

static int is_known(pid_t p)
{
    for (struct th *q = ths; q; q = q->next)
        if (q->tid == p)
            return 1;
    return 0;
}

static void on_stop(pid_t p, int st)
{
    const int ev = st >> 16, sg = WSTOPSIG(st);
    if (ev == PTRACE_EVENT_SECCOMP) {
        on_entry(p);
    } else if (sg == (SIGTRAP | 0x80)) {
        on_exit_stop(p);
    } else if (ev) {
        ptrace(PTRACE_CONT, p, 0, 0);
    } else if (sg == SIGSTOP && !is_known(p)) { /* a new thread */
        th_get(p);
        ptrace(PTRACE_CONT, p, 0, 0);
    } else {
        ptrace(PTRACE_CONT, p, 0, sg == SIGTRAP ? 0 : sg);
    }
}

/* Until nobody is left; the exit status of the command. */
static int follow(void)
{
    int st, rc = 125;
    for (;;) {
        const pid_t p = waitpid(-1, &st, __WALL);
        if (p < 0 && errno != EINTR)
            return timed_out ? 124 : rc;
        if (p < 0) {
            if (timed_out == 1) {
                killtree();
                timed_out = 2;
            }
            continue;
        }
        if (WIFEXITED(st) || WIFSIGNALED(st)) {
            th_del(p);
            if (p == root)
                rc = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
        } else if (WIFSTOPPED(st)) {
            on_stop(p, st);
        }
    }
}

int main(int ac, char **av)
{
    int tmo = 0;
    if (!read_options(ac, av, &tmo))
        return 125;
    start(av + optind, tmo);
    const int rc = follow();
    if (logf_)
        fclose(logf_);
    if (rec) {
        fclose(rec);
        fclose(recdata);
    }
    if (!quiet)
        fprintf(stderr, "faultrun: counted=%ld acted=%ld status=%d at=%s %s\n", counted, acted, rc,
                first_hit ? cls_name[first_hit->c] : "-", first_hit ? first_hit->name : "-");
    return rc;
}
