/* pg.h - all of libpg's public headers. */
#ifndef PG_PG_H
#define PG_PG_H

#include "pg/check.h"
#include "pg/compare.h"
#include "pg/config.h"
#include "pg/convert.h"
#include "pg/data.h"
#include "pg/err.h"
#include "pg/file.h"
#include "pg/find.h"
#include "pg/inspect.h"
#include "pg/job.h"
#include "pg/onnx.h"
#include "pg/page.h"
#include "pg/predict.h"
#include "pg/progress.h"
#include "pg/resume.h"
#include "pg/shard.h"
#include "pg/stats.h"
#include "pg/store.h"
#include "pg/train.h"
#include "pg/unwrap.h"
#include "pg/version.h"

#endif
