/* classes.c - the facts about layer classes that a graph needs: whether a class exists, holds
 * variables, and how many outputs it has. model/lower knows what it computes. */
#include "model/graph/classes.h"

#include <stdlib.h>
#include <string.h>

#include "pg/store.h"

typedef struct layer_class {
    const char *name, *family;
    int outputs;
} layer_class;

static const layer_class classes[] = {
/* sorted by name */
#define PG_LAYER(class_name, family, outputs, lowering) {#class_name, #family, outputs},
#define PG_UNTRAINED(class_name, family, outputs, why)  {#class_name, #family, outputs},
#include "model/layers.def"
#undef PG_UNTRAINED
#undef PG_LAYER
};

static int compare_class(const void *name, const void *entry)
{
    return strcmp(name, ((const layer_class *)entry)->name);
}

size_t pg__class_find(const char *class_name)
{
    if (strcmp(class_name, "Custom>CustomScaleLayer") ==
        0) /* tf.keras writes registered classes so */
        class_name = "CustomScaleLayer";
    const layer_class *c = bsearch(class_name, classes, sizeof classes / sizeof *classes,
                                   sizeof *classes, compare_class);
    return c ? (size_t)(c - classes) : PG_NONE;
}

const char *pg__class_at(size_t i)
{
    return i < sizeof classes / sizeof *classes ? classes[i].name : NULL;
}

int pg__class_known(const char *class_name, int *weightless)
{
    const size_t i = pg__class_find(class_name);
    *weightless = i != PG_NONE && strcmp(classes[i].family, "none") == 0;
    return i != PG_NONE;
}

int pg__class_has_one_output(const char *class_name)
{
    const size_t i = pg__class_find(class_name);
    return i != PG_NONE && classes[i].outputs == 1;
}
