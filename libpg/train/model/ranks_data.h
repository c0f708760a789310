/* ranks_data.h - checks that all ranks read the same data. */
#ifndef PG_TRAIN_MODEL_RANKS_DATA_H
#define PG_TRAIN_MODEL_RANKS_DATA_H

#include "train/model/feed.h"

/* PG_E_MISMATCH names the file, the row and both ranks. */
pg_status pg__ranks_same_data(pg_trainer *t, const pg__feed *f, pg_err *err);

#endif
