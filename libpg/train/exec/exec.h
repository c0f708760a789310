/* exec.h - one tape compiled for one device: memory, calls, threads, profile. Uses ops, model/lower
 * and backend; knows nothing of data or the trainer. Begin reading at program.c. */
#ifndef PG_TRAIN_EXEC_EXEC_H
#define PG_TRAIN_EXEC_EXEC_H

#include "train/exec/arena.h"
#include "train/exec/lanes.h"
#include "train/exec/profile.h"
#include "train/exec/program.h"
#include "train/exec/thread_pool.h"
#include "train/exec/trace.h"

#endif
