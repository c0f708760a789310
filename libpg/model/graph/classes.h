/* classes.h - the layer classes of Keras that layers.def lists, by name. */
#ifndef PG_MODEL_GRAPH_CLASSES_H
#define PG_MODEL_GRAPH_CLASSES_H

#include <stddef.h>

/* Number of a class, PG_NONE if it is not in the list; and the name of class i, NULL past the end.
 */
size_t pg__class_find(const char *class_name);
const char *pg__class_at(size_t i);

/* 1 if the class is known; *weightless says that it never holds variables. */
int pg__class_known(const char *class_name, int *weightless);

/* 1 if a call of a layer of this class always gives exactly one tensor. */
int pg__class_has_one_output(const char *class_name);

#endif
