/* rules.h - optimizers, schedules, losses, metrics, penalties and initial values by Keras' names.
 * Uses ops and model; knows nothing of devices. Begin reading at names.c and optimizer.c. */
#ifndef PG_TRAIN_RULES_RULES_H
#define PG_TRAIN_RULES_RULES_H

#include "train/rules/file_pattern.h"
#include "train/rules/initial.h"
#include "train/rules/metric.h"
#include "train/rules/names.h"
#include "train/rules/optimizer.h"
#include "train/rules/penalty.h"
#include "train/rules/settings.h"

#endif
