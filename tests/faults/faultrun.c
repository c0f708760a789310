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
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faultrun.h"

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
static pid_t root;
static volatile sig_atomic_t timed_out;

void die(const char *m)
{
    fprintf(stderr, "faultrun: %s: %s\n", m, strerror(errno));
    exit(125);
}
static void on_alarm(int s)
{
    (void)s;
    timed_out = 1;
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
static void install(void)
{
    struct sock_filter f[MAX_CALLS + 8];
    unsigned k = 0;
    long nrs[MAX_CALLS];
    const unsigned m = calls_of(nrs, want);
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
    th_kill_all();
    kill(root, SIGKILL);
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
    const struct sc *s = call_of((long)r.orig_rax);
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
        (s->c == OPEN && (wonly || record_is_open()) && !opens_for_change(pid, t)) ||
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
        if (logf_ || record_is_open()) {
            t->pend = 3;
            ptrace(PTRACE_SYSCALL, pid, 0, 0);
        } else
            ptrace(PTRACE_CONT, pid, 0, 0);
        return;
    }
    if (!acted++)
        first_hit = s;
    if (logf_) {
        fprintf(logf_, "%ld %s %s HIT %s %ld %lu\n", t->n, class_name(s->c), s->name, t->path,
                t->off, a[2]);
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
        fprintf(logf_, "%ld %s %s %ld ", t->n, class_name(t->sc->c), t->sc->name, ret);
        esc(logf_, t->path);
        fprintf(logf_, " %ld %lu\n", t->off, t->a[2]);
    }
    if (record_is_open() && ret >= 0 && t->pend != 1)
        record_call(pid, t, ret);
    if (t->pend == 2) {
        killtree();
        return;
    }
    t->pend = 0;
    ptrace(PTRACE_CONT, pid, 0, 0);
}
static int set_action(const char *name)
{
    act_err = error_of(name);
    act_sig = signal_of(name);
    act_kind = act_err ? 1 : act_sig ? 6 : 0;
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
        const int i = class_of(p);
        if (i == NCLS) {
            fprintf(stderr, "faultrun: unknown class '%s'\n", p);
            return 0;
        }
        want |= 1u << i;
    }
    return 1;
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
    if (recdir) {
        want |= record_classes();
        record_open(recdir);
    }
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

static void on_stop(pid_t p, int st)
{
    const int ev = st >> 16, sg = WSTOPSIG(st);
    if (ev == PTRACE_EVENT_SECCOMP) {
        on_entry(p);
    } else if (sg == (SIGTRAP | 0x80)) {
        on_exit_stop(p);
    } else if (ev) {
        ptrace(PTRACE_CONT, p, 0, 0);
    } else if (sg == SIGSTOP && !th_is_known(p)) { /* a new thread */
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
    record_close();
    if (!quiet)
        fprintf(stderr, "faultrun: counted=%ld acted=%ld status=%d at=%s %s\n", counted, acted, rc,
                first_hit ? class_name(first_hit->c) : "-", first_hit ? first_hit->name : "-");
    return rc;
}
