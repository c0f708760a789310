/* model.h - the trainer that programs use: opening, feeding rows, predicting, saving. Uses
 * train/step and the rooms below it. Begin reading at trainer.c; feed.c brings the rows. */
#ifndef PG_TRAIN_MODEL_MODEL_H
#define PG_TRAIN_MODEL_MODEL_H

#include "train/model/compiled.h"
#include "train/model/feed.h"
#include "train/model/logs.h"
#include "train/model/prefetch.h"
#include "train/model/ranks_data.h"
#include "train/model/resume_file.h"
#include "train/model/resume_output.h"
#include "train/model/save.h"

#endif
