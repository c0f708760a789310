/* step.h - one training step on all devices and processes: cut the batch, run the lanes, sum the
 * gradients, update. Uses train/exec, train/rules, comm and backend. Begin reading at step.c;
 * sum_plan.c decides how gradients are summed. */
#ifndef PG_TRAIN_STEP_STEP_H
#define PG_TRAIN_STEP_STEP_H

#include "train/step/average.h"
#include "train/step/buckets.h"
#include "train/step/devices.h"
#include "train/step/graph_capture.h"
#include "train/step/masks.h"
#include "train/step/mixed.h"
#include "train/step/model_parallel.h"
#include "train/step/optimizer_shard.h"
#include "train/step/out_of_memory.h"
#include "train/step/profiled.h"
#include "train/step/ranks.h"
#include "train/step/ranks_devices.h"
#include "train/step/report.h"
#include "train/step/result.h"
#include "train/step/snapshot.h"
#include "train/step/spectral.h"
#include "train/step/states.h"
#include "train/step/sync_bn.h"
#include "train/step/timeline.h"
#include "train/step/traced.h"
#include "train/step/trainer.h"
#include "train/step/update.h"
#include "train/step/upload.h"

#endif
