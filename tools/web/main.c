/* main.c - the tools that are about files in one program: the first word of the command says which.
 * A page makes a new instance for each command, so that no tool finds what another left behind. */
#include <string.h>

#include "cli.h"

#define TOOL(name) int name##_main(int argc, char **argv);
TOOLS
#undef TOOL

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} tools[] = {
#define TOOL(name) {#name, name##_main},
    TOOLS
#undef TOOL
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (strcmp(argv[0], tools[i].name) == 0)
            return tools[i].main(argc, argv);
    fprintf(stderr, "%s: not a tool of this page\n", cli_name(argv[0]).s);
    return CLI_TROUBLE;
}
