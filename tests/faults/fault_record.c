/* fault_record.c - faultrun's record of changes to files: a line for each, and the bytes written.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "faultrun.h"

static FILE *rec, *recdata;

void esc(FILE *o, const char *s)
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

void record_call(pid_t pid, struct th *t, long ret)
{
    switch (t->sc->c) {
    case WRITE:
        if (ret > 0)
            dump_write(pid, t, ret);
        break;
    case OPEN: {
        struct stat sb;
        const unsigned long fl = open_flags(pid, t);
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
                t->sc->nr == SYS_renameat2 && t->a[4] & RENAME_EXCHANGE ? "exchange" : "rename");
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

unsigned record_classes(void)
{
    return 1u << OPEN | 1u << WRITE | 1u << FSYNC | 1u << TRUNC | 1u << RENAME | 1u << UNLINK |
           1u << LINK | 1u << FALLOC | 1u << MKDIR | 1u << CLONE;
}

void record_open(const char *dir)
{
    char b[PATH_MAX];
    mkdir(dir, 0755);
    snprintf(b, sizeof b, "%s/log", dir);
    rec = fopen(b, "we");
    snprintf(b, sizeof b, "%s/data", dir);
    recdata = fopen(b, "we");
    if (!rec || !recdata)
        die(dir);
}

int record_is_open(void)
{
    return rec != NULL;
}

void record_close(void)
{
    if (rec) {
        fclose(rec);
        fclose(recdata);
    }
}
