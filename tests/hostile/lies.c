/* lies.c - descriptions of models in which one value is a lie. Of each value in the entry of a
 * layer (its config, what it wraps, its calls) there is a mutant for each lie below; each is read,
 * lowered and, if it is small, computed, with and without training. A mutant is refused in one line
 * that begins with the name of what is wrong, or makes sense after all.
 *
 * usage: lies [-v] [-s N[:SEED]] FILE...      FILE: descriptions, one a line (gen/gen_lies.py)
 *        -v: tells of each mutant what came out; -s: one N-th of them, others in each run */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"
#include "model/fit/match.h"
#include "model/lower/lower.h"

#define MOST_ELEMS   (1u << 18) /* of a mutant that is computed */
#define MOST_SECONDS 10

static const char *const lies[] = {"null",
                                   "\"lie\"",
                                   "\"\"",
                                   "true",
                                   "-1",
                                   "0",
                                   "1",
                                   "3",
                                   "0.5",
                                   "-1e30",
                                   "1e300",
                                   "NaN",
                                   "2147483647",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "[]",
                                   "{}",
                                   "[-1]",
                                   "[0, 0]",
                                   "[2147483647, 2147483647]",
                                   "[[[[[[[[[[1]]]]]]]]]]",
                                   "[[1, 2], [3, 4]]",
                                   "{\"class_name\": \"lie\", \"config\": {\"value\": 1}}",
                                   "LONG"};
#define N_LIES (sizeof lies / sizeof *lies)
#define N_LONG 5000

typedef struct count {
    size_t mutants, refused, accepted, computed, bad;
} count;

typedef struct run {
    count n;
    int verbose;
    unsigned share, seed;
    const char *text, *version; /* of the description in hand */
    size_t n_text;
    char *long_list;
} run;

/* ---- what is made of a mutant ---- */

static void *fresh(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p)
        abort();
    return p;
}

static uint64_t elems_of(const pg__tape *t)
{
    uint64_t n = 0;
    for (pg__val v = 0; v < t->n_values; v++)
        n = pg__dim_add(n, pg__dims_elems(&t->values[v].shape));
    return n;
}

static void fill(const pg__value *value, void *at)
{
    const uint64_t n = pg__dims_elems(&value->shape);
    for (uint64_t i = 0; i < n && value->elem == PG_ELEM_REAL; i++)
        ((double *)at)[i] = (double)(i % 7) / 4 - 0.6;
    for (uint64_t i = 0; i < n && value->elem == PG_ELEM_INT && value->role == PG_INPUT; i++)
        ((int32_t *)at)[i] = (int32_t)(i % 2);
}

/* All instructions by the plain answers; sanitizers look on. Ids are 0 and 1. */
static void compute(const pg__tape *t)
{
    void **at = fresh(t->n_values, sizeof *at);
    for (pg__val v = 0; v < t->n_values; v++) {
        at[v] = fresh(pg__dims_elems(&t->values[v].shape), sizeof(double));
        if (t->values[v].role != PG_TEMP)
            fill(&t->values[v], at[v]);
    }
    for (uint32_t i = 0; i < t->n_insts; i++) {
        static const pg__dims none = {.rank = 0};
        const pg__inst *inst = &t->insts[i];
        pg__arg *in = fresh(inst->n_in, sizeof *in), *out = fresh(inst->n_out, sizeof *out);
        for (uint32_t k = 0; k < inst->n_in + inst->n_out; k++) {
            const pg__val v =
                k < inst->n_in ? pg__in(t, inst, k) : pg__out(t, inst, k - inst->n_in);
            pg__arg *a = k < inst->n_in ? &in[k] : &out[k - inst->n_in];
            *a = v == PG_NO_VAL
                     ? (pg__arg){&none, NULL, 0}
                     : (pg__arg){&t->values[v].shape, at[v], pg__dims_elems(&t->values[v].shape)};
        }
        if (inst->op->ref_f64)
            inst->op->ref_f64(inst->attrs, in, inst->n_in, out, inst->n_out);
        free(in);
        free(out);
    }
    for (pg__val v = 0; v < t->n_values; v++)
        free(at[v]);
    free(at);
}

static pg_status add_backward(pg__lowered *m, pg_err *err)
{
    const pg__activity_attrs squares = {0, 1};
    const pg__dims scalar = {.rank = 0};
    pg__val seed, loss;
    pg_status st = pg__tape_value(&m->tape, &scalar, PG_ELEM_REAL, PG_SEED, 0, 0, &seed, err);
    for (size_t k = 0; st == PG_OK && k < m->n_outputs; k++)
        if (m->tape.values[m->outputs[k]].elem == PG_ELEM_REAL)
            st = pg__emit2(&m->tape, PG_OP_activity, &squares, m->outputs[k], seed, &loss, err);
    return st == PG_OK ? pg__tape_backward(&m->tape, err) : st;
}

static pg_status lower(run *r, const pg__graph *g, const pg__leaves *leaves, uint64_t rows,
                       int training, pg_err *err)
{
    pg__lowered m = {.n_outputs = 0};
    const pg__rules *rules;
    pg_status st = pg__rules_of(&rules, r->version, err);
    const pg__lower_opts opts = {
        .graph = g, .leaves = leaves, .rules = rules, .n_rows = rows, .training = training};
    if (st != PG_OK)
        return st;
    st = pg__lower(&m, &opts, err);
    if (st != PG_OK)
        return st;
    if (training)
        st = add_backward(&m, err);
    if (st == PG_OK && rows != PG_DIM_ANY && elems_of(&m.tape) <= MOST_ELEMS) {
        compute(&m.tape);
        r->n.computed++;
    }
    pg__lowered_fini(&m);
    return st;
}

static pg_status try_text(run *r, const char *text, size_t n, pg_err *err)
{
    pg__graph *g = NULL;
    pg__leaves leaves = {0};
    pg_status st = pg__graph_parse(&g, text, n, err);
    if (st == PG_OK)
        st = pg__leaves_of(&leaves, g->root, g->dialect, err);
    if (st == PG_OK)
        st = lower(r, g, &leaves, PG_DIM_ANY, 0, err);
    for (int training = 0; training < 2 && st == PG_OK; training++)
        st = lower(r, g, &leaves, 4, training, err);
    pg__leaves_fini(&leaves);
    pg__graph_free(g);
    return st;
}

/* ---- mutants ---- */

typedef struct place {
    pg__json_span at;
    const char *path; /* as a person would write it */
} place;

static unsigned hash(const char *s, unsigned h)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

/* Whose fault it is: a name and a colon, or all of a list. */
static int names(const char *msg)
{
    const size_t n = strcspn(msg, ":");
    return (n > 0 && n < 200 && msg[n] == ':') || strstr(msg, "layers cannot be computed");
}

static void judge(run *r, const place *p, const char *lie, pg_status st, const pg_err *err,
                  double seconds)
{
    const char *fault = NULL;
    if (st != PG_OK && (err->code == PG_OK || !err->msg[0] || strchr(err->msg, '\n')))
        fault = "refused without a line";
    else if (st != PG_OK && !names(err->msg))
        fault = "refused without a name";
    else if (seconds > MOST_SECONDS)
        fault = "takes too long";
    r->n.bad += fault != NULL;
    r->n.refused += st != PG_OK;
    r->n.accepted += st == PG_OK;
    if (fault || r->verbose)
        printf("%s\t%s\t%s\t%s\t%.1f s\n",
               fault         ? fault
               : st == PG_OK ? "accepted"
                             : "refused",
               p->path, lie, st == PG_OK ? "" : err->msg, seconds);
    fflush(stdout);
}

static char in_hand[700]; /* where the mutant lies, for one that does not end */

static void give_up(int signal)
{
    (void)signal;
    (void)!write(STDOUT_FILENO, in_hand, strlen(in_hand));
    _exit(1);
}

static void mutate(run *r, const place *p)
{
    for (size_t i = 0; i < N_LIES; i++) {
        const char *lie = strcmp(lies[i], "LONG") == 0 ? r->long_list : lies[i];
        const size_t n = strlen(lie), after = p->at.off + p->at.n;
        struct timespec a, b;
        pg_err err = {0};
        if (r->share > 1 && hash(p->path, hash(lies[i], r->seed ^ (unsigned)r->n_text)) % r->share)
            continue;
        char *text = fresh(r->n_text + n, 1);
        memcpy(text, r->text, p->at.off);
        memcpy(text + p->at.off, lie, n);
        memcpy(text + p->at.off + n, r->text + after, r->n_text - after);
        (void)snprintf(in_hand, sizeof in_hand, "does not end: %.500s is %.100s\n", p->path,
                       lies[i]);
        (void)alarm(3 * MOST_SECONDS);
        clock_gettime(CLOCK_MONOTONIC, &a);
        const pg_status st = try_text(r, text, r->n_text - p->at.n + n, &err);
        clock_gettime(CLOCK_MONOTONIC, &b);
        r->n.mutants++;
        judge(r, p, lies[i], st, &err,
              (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
        free(text);
    }
}

#define MAX_DEPTH 8

/* All values below one, itself included. */
static void mutate_below(run *r, place p, int depth)
{
    pg__json_walk w = pg__json_walk_of(r->text, p.at);
    char path[512];
    size_t index = 0;
    mutate(r, &p);
    if (depth == MAX_DEPTH || (r->text[p.at.off] != '{' && r->text[p.at.off] != '['))
        return;
    while (pg__json_walk_next(&w) && index < 8) {
        place inner = p;
        const int n = w.is_object ? snprintf(path, sizeof path, "%s.%.*s", p.path,
                                             (int)(w.key.n - 2), r->text + w.key.off + 1)
                                  : snprintf(path, sizeof path, "%s[%zu]", p.path, index++);
        if (n < 0 || (size_t)n >= sizeof path)
            continue;
        inner.at = w.value;
        inner.path = path;
        mutate_below(r, inner, depth + 1);
    }
}

static char *text_of(const char *text, pg__json_span s)
{
    char *copy = fresh(s.n, 1);
    if (s.n >= 2 && text[s.off] == '"')
        memcpy(copy, text + s.off + 1, s.n - 2);
    return copy;
}

/* "name" is left alone: what is called by it would be another's fault. */
static void mutate_layer(run *r, pg__json_span entry)
{
    const pg__json_span config = pg__json_member(r->text, entry, "config");
    const pg__json_span calls = pg__json_member(r->text, entry, "inbound_nodes");
    char *class_name = text_of(r->text, pg__json_member(r->text, entry, "class_name"));
    pg__json_walk w = pg__json_walk_of(r->text, config);
    char path[256];
    while (config.n && pg__json_walk_next(&w)) {
        snprintf(path, sizeof path, "%s.%.*s", class_name, (int)(w.key.n - 2),
                 r->text + w.key.off + 1);
        if (!pg__json_key_is(r->text, w.key, "name"))
            mutate_below(r, (place){w.value, path}, 0);
    }
    snprintf(path, sizeof path, "%s()", class_name);
    if (calls.n)
        mutate_below(r, (place){calls, path}, 0);
    free(class_name);
}

static void take_line(run *r, const char *text, size_t n)
{
    const pg__json_span all = {0, n};
    pg_err err = {0};
    char *version = NULL;
    if (pg__json_check(text, n, &err) != PG_OK) {
        printf("no JSON: %s\n", err.msg);
        r->n.bad++;
        return;
    }
    r->text = text;
    r->n_text = n;
    version = text_of(text, pg__json_member(text, all, "keras_version"));
    r->version = *version ? version : NULL;
    if (try_text(r, text, n, &err) != PG_OK && r->verbose)
        printf("honest, but refused\t%s\n", err.msg);
    const pg__json_span layers =
        pg__json_member(text, pg__json_member(text, all, "config"), "layers");
    pg__json_walk w = pg__json_walk_of(text, layers);
    while (layers.n && pg__json_walk_next(&w))
        if (strncmp(text + pg__json_member(text, w.value, "class_name").off, "\"InputLayer", 11) !=
            0)
            mutate_layer(r, w.value);
    free(version);
}

int main(int argc, char **argv)
{
    run r = {.share = 1, .seed = (unsigned)time(NULL)};
    (void)signal(SIGALRM, give_up);
    r.long_list = fresh(N_LONG * 2 + 2, 1);
    for (size_t i = 0; i < N_LONG; i++)
        memcpy(r.long_list + 2 * i, i ? ",1" : "[1", 2);
    strcat(r.long_list, "]");
    for (int i = 1; i < argc; i++) {
        char *line = NULL;
        size_t cap = 0;
        ssize_t n;
        if (strcmp(argv[i], "-v") == 0) {
            r.verbose++;
            continue;
        }
        if (strcmp(argv[i], "-s") == 0 && i + 1 < argc) {
            (void)sscanf(argv[++i], "%u:%u", &r.share, &r.seed);
            continue;
        }
        FILE *f = fopen(argv[i], "r");
        if (!f) {
            perror(argv[i]);
            return 2;
        }
        while ((n = getline(&line, &cap, f)) > 0)
            take_line(&r, line, (size_t)n);
        free(line);
        fclose(f);
    }
    printf("-s %u:%u: %zu mutants: %zu refused, %zu accepted, %zu computed, %zu bad\n", r.share,
           r.seed, r.n.mutants, r.n.refused, r.n.accepted, r.n.computed, r.n.bad);
    free(r.long_list);
    return r.n.bad != 0 || r.n.mutants == 0;
}
