/* below.h - the only checkpoint in the folders of a folder. */
#ifndef PG_FORMAT_BELOW_H
#define PG_FORMAT_BELOW_H

#include "base/str.h"

/* Finds the file to open of a checkpoint that is a folder, as pg__folder_index() does. */
typedef pg_status (*pg__folder_look)(char **out, const char *folder, pg_err *err);

/* What `look` finds in the only folder within `folder` that it takes: torchtitan's
 * checkpoint/step-100, Keras' backup/chief, DeepSpeed's global_step10 without a file "latest".
 * *out stays NULL if there is none; PG_E_AMBIGUOUS, with the names, if there are several. */
pg_status pg__folder_below(char **out, const char *folder, pg__folder_look look, pg_err *err);

#endif
