/* Prints what pg__find_beside finds of the file that is named, as a program of a Python package:
 * see beside.py. */
#include <stdio.h>

#include "base/beside.h"

int main(int argc, char **argv)
{
    char out[PATH_MAX];
    if (argc != 2 || !pg__find_beside(out, argv[1], "nowhere"))
        return 1;
    return puts(out) < 0;
}
