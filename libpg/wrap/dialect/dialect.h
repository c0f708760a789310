/* dialect.h - the dialects of Keras 2 and Keras 3: translates descriptions and training
 * configurations, and says which Keras loads a model. Knows JSON and layers, but not files. Begin
 * reading at translate.c. */
#ifndef PG_WRAP_DIALECT_DIALECT_H
#define PG_WRAP_DIALECT_DIALECT_H

#include "base/json.h"
#include "base/json_scan.h"
#include "base/str.h"
#include "store/plan.h"

/* ---- translate.c: a description for the other Keras ---- */

/* Translates a model's text from any release to Keras 2.15 or 3. same: it is from that Keras
 * already, perhaps from an older release. PG_E_UNSUPPORTED lists the features lacking there. */
pg_status pg__translate(pg__str *out, size_t *n_classes, const char *text, size_t n, int to,
                        int same, pg_err *err);

/* ---- optimizer.c: an optimizer for the other Keras ---- */

/* s: {"class_name", "config"} of Keras 1 or 2 in text. Adds nothing to *out if Keras 3 cannot
 * express it. Notes say what was dropped, and where Keras 3 steps differently. */
pg_status pg__optimizer_to_3(pg__str *out, pg__strs *notes, const char *text, pg__json_span s,
                             pg_err *err);
/* The same from Keras 3 for Keras 2.11 and later, in the form of .keras (zip) or of an .h5. */
pg_status pg__optimizer_to_2(pg__str *out, pg__strs *notes, const char *text, pg__json_span s,
                             int zip, pg_err *err);
/* 1 if Keras 3 has the optimizer, in upper or lower case; with a key, if load_model() accepts that
 * parameter of it (also decay, which is ignored). An unknown optimizer accepts every key. */
int pg__optimizer_takes_3(const char *class_name, const char *key);

/* ---- loads_in.c: which Keras loads a full model as it is ---- */

/* A sentence about the model that plan writes; empty if it has no description. */
pg_status pg__loads_in(pg__str *out, const pg__plan *plan, pg_err *err);

#endif
