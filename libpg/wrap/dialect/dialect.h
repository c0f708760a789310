/* dialect.h - the words of Keras 2 and of Keras 3: descriptions and training configurations of one
 * for the other, and which of them loads what is given. Knows JSON and layers, no files. Begin
 * reading at translate.c. */
#ifndef PG_WRAP_DIALECT_DIALECT_H
#define PG_WRAP_DIALECT_DIALECT_H

#include "base/json.h"
#include "base/json_scan.h"
#include "base/str.h"
#include "store/plan.h"

/* ---- translate.c: a description for the other Keras ---- */

/* text of a model, from any release to Keras 2.15 or 3. same: it is that Keras' already, perhaps of
 * an older release. PG_E_UNSUPPORTED lists what is lacking there. */
pg_status pg__translate(pg__str *out, size_t *n_classes, const char *text, size_t n, int to,
                        int same, pg_err *err);

/* ---- optimizer.c: an optimizer of Keras 1 or 2 for Keras 3 ---- */

/* s: {"class_name", "config"} in text. Nothing is added to *out if Keras 3 cannot say it. Notes
 * tell what was dropped, and where Keras 3 steps otherwise. */
pg_status pg__optimizer_to_3(pg__str *out, pg__strs *notes, const char *text, pg__json_span s,
                             pg_err *err);
/* 1 if Keras 3 has the optimizer, in any case of letters; with a key, if that is a parameter of it
 * which load_model() takes (decay, too: it is ignored). An optimizer that is not known takes all.
 */
int pg__optimizer_takes_3(const char *class_name, const char *key);

/* ---- loads_in.c: which Keras loads a full model as it is ---- */

/* A sentence about the model that plan writes; empty if it has no description. */
pg_status pg__loads_in(pg__str *out, const pg__plan *plan, pg_err *err);

#endif
