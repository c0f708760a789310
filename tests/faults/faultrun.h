/* faultrun.h - shared by the parts of faultrun: the system calls it knows (fault_calls.c), what it
 * reads of a process that it traces (fault_process.c), and its record of changes
 * (fault_record.c). */
#ifndef FAULTRUN_H
#define FAULTRUN_H

#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

/* Prints why and ends faultrun with status 125. */
void die(const char *why);

/* ---- system calls, in classes ---- */

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

struct sc {
    long nr;
    enum cls c;
    char how; /* to find the path: F: fd in arg0, P: path arg0, A: dirfd arg0 + path arg1, C: fd in
                 arg2, M: fd in arg4 (mmap) */
    const char *name;
};

#define MAX_CALLS 128u

const char *class_name(enum cls c);
int class_of(const char *name);            /* NCLS: there is none */
const struct sc *call_of(long nr);         /* NULL: it is in no class */
unsigned calls_of(long *nrs, unsigned in); /* numbers of the calls of classes: a bit each */
int error_of(const char *name);            /* ENOSPC of "ENOSPC"; 0: unknown */
int signal_of(const char *name);

/* ---- a traced thread ---- */

struct th {
    pid_t tid;
    int pend; /* exit action: 1 set errno, 2 kill, 3 record/log only */
    const struct sc *sc;
    char path[PATH_MAX], path2[PATH_MAX];
    long n, off;
    unsigned long a[6];
    struct th *next;
};

struct th *th_get(pid_t t); /* made if it is new */
int th_is_known(pid_t t);
void th_del(pid_t t);
void th_kill_all(void);

/* Copies n bytes of its memory: 0, or -1. */
int rdmem(pid_t pid, unsigned long addr, void *b, size_t n);
/* Paths, of PATH_MAX bytes: of a descriptor, of an argument relative to a folder's descriptor. */
void fdpath(pid_t pid, int fd, char *out);
void absat(pid_t pid, int dfd, unsigned long addr, char *out);
long fdpos(pid_t pid, int fd);
int fdappend(pid_t pid, int fd);
/* Flags of a call that opens, and whether it can change something. */
unsigned long open_flags(pid_t pid, const struct th *t);
int opens_for_change(pid_t pid, const struct th *t);

/* ---- the record ---- */

/* A path as one word of a line. */
void esc(FILE *o, const char *s);
void record_open(const char *dir);
int record_is_open(void);
unsigned record_classes(void); /* a bit for each class that changes something */
void record_call(pid_t pid, struct th *t, long ret); /* that succeeded */
void record_close(void);

#endif
