/* vars.c - prints which variables libpg expects of each layer of the models given as JSON files,
 * for layer_vars.py: FILE, then "LAYER known|unknown" and a line "T|N NAME DIM ..." for each. */
#include <stdio.h>

#include "model/fit/match.h"

static void print_leaf(const pg__leaf *l)
{
    printf("%s %s\n", l->layer->name, l->vars.known ? "known" : "unknown");
    for (int trainable = 1; trainable >= 0; trainable--)
        for (size_t i = 0; i < l->vars.n; i++) {
            const pg__var *v = &l->vars.v[i];
            if ((v->trainable && l->trainable) != trainable)
                continue;
            printf("%c %s", trainable ? 'T' : 'N', v->name);
            if (v->alt[0])
                printf("|%s", v->alt);
            for (uint32_t k = 0; k < v->rank; k++)
                v->dims[k] == PG_DIM_ANY ? printf(" ?")
                                         : printf(" %llu", (unsigned long long)v->dims[k]);
            puts(v->any_rank ? " any" : "");
        }
}

int main(int argc, char **argv)
{
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        pg_err err = {0};
        pg__graph *g = NULL;
        pg__leaves leaves = {0};
        puts(argv[i]);
        if (pg__graph_load(&g, argv[i], &err) != PG_OK ||
            pg__leaves_of(&leaves, g->root, g->dialect, &err) != PG_OK) {
            printf("error %s\n", err.msg);
            bad = 1;
        }
        for (size_t k = 0; k < leaves.n; k++)
            print_leaf(&leaves.v[k]);
        pg__leaves_fini(&leaves);
        pg__graph_free(g);
    }
    return bad;
}
