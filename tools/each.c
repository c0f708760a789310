/* each.c - runs a tool on several inputs. Each input has a process of its own, so that whatever one
 * file does to it, the others are done. What it prints is kept until those before it have been
 * shown; a single job at a time shows errors and progress at once. */
#include "each.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *each_dir;
unsigned each_jobs = 1;

enum { OUT, ERR, N_STREAMS };

typedef struct text {
    char *s;
    size_t n;
} text;

typedef struct job {
    const char *in;
    char *out; /* owned */
    pid_t pid; /* 0: not running */
    int fd[N_STREAMS];
    text said[N_STREAMS];
    int status, is_over;
} job;

typedef struct jobs {
    job *v;
    size_t n, n_begun, n_running, n_shown;
    int status, lacks_dir; /* a dry run does not make it */
    each_fn fn;
} jobs;

/* An error of this process: in a list of JSON each input has its own object only. */
static int complain(const char *in, const char *what, const char *why)
{
    const int json = cli.json;
    cli.json = 0;
    const int status = cli_complain(NULL, NULL, "%s: %s%s", cli_name(in).s, what, why);
    cli.json = json;
    return status;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Where the suffix of a name begins: all of ".weights.h5". */
static size_t stem_of(const char *name)
{
    static const char *const doubles[] = {".weights.h5", ".pth.tar"};
    const size_t n = strlen(name);
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        const size_t k = strlen(doubles[i]);
        if (n > k && strcmp(name + n - k, doubles[i]) == 0)
            return n - k;
    }
    return dot && dot != name ? (size_t)(dot - name) : n;
}

/* PyTorch's files are read, not written. */
static const char *written_suffix(const char *suffix)
{
    static const char *const read_only[] = {".pt", ".pth", ".pth.tar", ".bin", ".ckpt"};
    for (size_t i = 0; i < sizeof read_only / sizeof *read_only; i++)
        if (strcmp(suffix, read_only[i]) == 0)
            return ".safetensors";
    return suffix;
}

static char *output_of(const char *in, const char *suffix)
{
    const char *name = base_of(in);
    const size_t stem = stem_of(name);
    const char *end = suffix ? suffix : written_suffix(name + stem);
    const size_t size = strlen(each_dir) + stem + strlen(end) + 2;
    char *out = malloc(size);
    if (out)
        snprintf(out, size, "%s%s%.*s%s", each_dir,
                 each_dir[strlen(each_dir) - 1] == '/' ? "" : "/", (int)stem, name, end);
    return out;
}

static int compare_outputs(const void *a, const void *b)
{
    const job *const *x = a, *const *y = b;
    return strcmp((*x)->out, (*y)->out);
}

/* Two inputs of one name: the second would replace the first, or fail after the work. */
static int check_names(const jobs *j)
{
    int status = CLI_OK;
    const job **sorted = malloc(j->n * sizeof *sorted);
    if (!sorted)
        return cli_complain(NULL, NULL, "out of memory");
    for (size_t i = 0; i < j->n; i++)
        sorted[i] = &j->v[i];
    qsort(sorted, j->n, sizeof *sorted, compare_outputs);
    for (size_t i = 1; i < j->n && status == CLI_OK; i++)
        if (strcmp(sorted[i - 1]->out, sorted[i]->out) == 0)
            status = cli_complain(NULL, NULL, "%s and %s would both be %s; nothing written",
                                  cli_name(sorted[i - 1]->in).s, cli_name(sorted[i]->in).s,
                                  cli_name(sorted[i]->out).s);
    free(sorted);
    return status;
}

/* An operand must not end with "/", which has no name. */
static int prepare(jobs *j, char *const *inputs, size_t n, const char *suffix)
{
    j->v = calloc(n, sizeof *j->v);
    if (!j->v)
        return cli_complain(NULL, NULL, "out of memory");
    for (; j->n < n; j->n++) {
        job *one = &j->v[j->n];
        *one = (job){.in = inputs[j->n], .fd = {-1, -1}};
        if (!*base_of(one->in))
            return cli_complain(NULL, NULL, "%s: --out-dir takes files; this is a folder",
                                cli_name(one->in).s);
        one->out = output_of(one->in, suffix);
        if (!one->out)
            return cli_complain(NULL, NULL, "out of memory");
    }
    return check_names(j);
}

/* ---- one process ---- */

/* With several at a time, errors wait for their turn, and there is no progress. */
static int is_kept(int stream)
{
    return stream == OUT || each_jobs > 1;
}

_Noreturn static void be_child(const jobs *j, const job *one, const int to[N_STREAMS])
{
    static const int streams[N_STREAMS] = {STDOUT_FILENO, STDERR_FILENO};
    for (int k = 0; k < N_STREAMS; k++)
        if (to[k] >= 0 && dup2(to[k], streams[k]) < 0)
            _exit(CLI_TROUBLE);
    if (each_jobs > 1)
        cli.progress = "never";
    exit(cli_finish(j->fn(one->in, j->lacks_dir ? NULL : one->out)));
}

static int start(jobs *j, job *one)
{
    int to[N_STREAMS] = {-1, -1};
    for (int k = 0; k < N_STREAMS; k++) {
        int ends[2];
        if (!is_kept(k))
            continue;
        if (pipe(ends) != 0)
            goto fail;
        one->fd[k] = ends[0];
        to[k] = ends[1];
        (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    }
    (void)fflush(stdout);
    one->pid = fork();
    if (one->pid == 0)
        be_child(j, one, to);
    if (one->pid < 0)
        goto fail;
    for (int k = 0; k < N_STREAMS; k++)
        if (to[k] >= 0)
            close(to[k]);
    j->n_running++;
    return 1;
fail:
    one->status = complain(one->in, "no process for it: ", strerror(errno));
    for (int k = 0; k < N_STREAMS; k++) {
        if (to[k] >= 0)
            close(to[k]);
        if (one->fd[k] >= 0)
            close(one->fd[k]);
        one->fd[k] = -1;
    }
    one->pid = 0;
    one->is_over = 1;
    return 0;
}

/* Takes what a stream has; closes it at its end. */
static void listen_to(job *one, int k)
{
    char piece[4096];
    const ssize_t n = read(one->fd[k], piece, sizeof piece);
    char *grown = n > 0 ? realloc(one->said[k].s, one->said[k].n + (size_t)n) : NULL;
    if (n > 0 && grown) {
        memcpy(grown + one->said[k].n, piece, (size_t)n);
        one->said[k].s = grown;
        one->said[k].n += (size_t)n;
    } else if (n == 0 || (n < 0 && errno != EINTR)) {
        close(one->fd[k]);
        one->fd[k] = -1;
    }
}

/* After its streams have ended. */
static void end(jobs *j, job *one)
{
    int how = 0;
    while (waitpid(one->pid, &how, 0) < 0 && errno == EINTR)
        continue;
    one->status = WIFEXITED(how) ? WEXITSTATUS(how) : CLI_TROUBLE;
    if (WIFSIGNALED(how))
        complain(one->in, "its process was ended by a signal: ", strsignal(WTERMSIG(how)));
    one->pid = 0;
    one->is_over = 1;
    j->n_running--;
}

/* ---- all of them ---- */

static void put(FILE *f, const text *t, size_t n)
{
    if (n > 0)
        (void)fwrite(t->s, 1, n, f);
}

static void show(jobs *j, job *one)
{
    text *out = &one->said[OUT];
    if (cli.json) {
        while (out->n > 0 && out->s[out->n - 1] == '\n')
            out->n--;
        fputs(j->n_shown == 0 ? "[" : ",\n", stdout);
        if (out->n == 0)
            fputs("null", stdout);
    }
    put(stdout, out, out->n);
    (void)fflush(stdout);
    put(stderr, &one->said[ERR], one->said[ERR].n);
    j->status = j->status == CLI_INTERRUPTED || one->status == CLI_INTERRUPTED
                    ? CLI_INTERRUPTED
                    : cli_worse(j->status, one->status);
    j->n_shown++;
}

static void wait_for_any(jobs *j)
{
    struct pollfd fds[64 * N_STREAMS];
    job *of[64 * N_STREAMS];
    int stream[64 * N_STREAMS];
    nfds_t n = 0;
    for (size_t i = j->n_shown; i < j->n_begun; i++)
        for (int k = 0; k < N_STREAMS; k++)
            if (j->v[i].fd[k] >= 0) {
                of[n] = &j->v[i];
                stream[n] = k;
                fds[n++] = (struct pollfd){.fd = j->v[i].fd[k], .events = POLLIN};
            }
    if (poll(fds, n, -1) < 0)
        return;
    for (nfds_t i = 0; i < n; i++)
        if (fds[i].revents)
            listen_to(of[i], stream[i]);
}

/* A signal to this process alone is passed on. */
static void pass_on(const jobs *j)
{
    for (size_t i = 0; i < j->n_begun; i++)
        if (j->v[i].pid > 0)
            (void)kill(j->v[i].pid, SIGTERM);
}

static void run_all(jobs *j)
{
    const volatile int *cancel = cli_cancel();
    const size_t most = each_jobs < 64 ? each_jobs : 64;
    int is_passed = 0;
    while (j->n_shown < j->n_begun || (j->n_begun < j->n && !*cancel)) {
        while (j->n_begun < j->n && j->n_running < most && !*cancel)
            start(j, &j->v[j->n_begun++]);
        if (*cancel && !is_passed++)
            pass_on(j);
        if (j->n_running > 0)
            wait_for_any(j);
        for (size_t i = j->n_shown; i < j->n_begun; i++)
            if (j->v[i].pid > 0 && j->v[i].fd[OUT] < 0 && j->v[i].fd[ERR] < 0)
                end(j, &j->v[i]);
        while (j->n_shown < j->n_begun && j->v[j->n_shown].is_over)
            show(j, &j->v[j->n_shown]);
    }
    if (*cancel)
        j->status = CLI_INTERRUPTED;
}

static void summarise(const jobs *j)
{
    size_t n_done = 0;
    for (size_t i = 0; i < j->n_shown; i++)
        n_done += j->v[i].status == CLI_OK;
    if (cli.json)
        fputs(j->n_shown ? "]\n" : "[]\n", stdout);
    else if (!cli.quiet)
        cli_printf(stdout, "%s: %zu of %s %s\n", cli_name(each_dir).s, n_done,
                   cli_plural(j->n, "file").s, cli.dry_run ? "would be written" : "written");
}

int each_input(char *const *inputs, size_t n, const char *suffix, each_fn fn)
{
    jobs j = {.fn = fn};
    int is_ours = 0;
    j.status = prepare(&j, inputs, n, suffix);
    if (j.status == CLI_OK && cli.dry_run) {
        j.lacks_dir = access(each_dir, F_OK) != 0;
    } else if (j.status == CLI_OK) {
        is_ours = mkdir(each_dir, 0777) == 0;
        if (!is_ours && errno != EEXIST)
            j.status = complain(each_dir, "cannot make the folder: ", strerror(errno));
    }
    if (j.status == CLI_OK) {
        run_all(&j);
        cli_reported_in_json();
        summarise(&j);
        if (is_ours)
            (void)rmdir(each_dir); /* stays unless it is empty */
    }
    for (size_t i = 0; i < j.n; i++) {
        free(j.v[i].out);
        for (int k = 0; k < N_STREAMS; k++)
            free(j.v[i].said[k].s);
    }
    free(j.v);
    return j.status;
}
