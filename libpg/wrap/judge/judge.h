/* judge.h - which wrapper wrote a file, and whether the file alone settles it. Uses model and
 * format; changes nothing. Begin reading at recognise.c; a wrapper is a rec_NAME.c. */
#ifndef PG_WRAP_JUDGE_JUDGE_H
#define PG_WRAP_JUDGE_JUDGE_H

#include "wrap/judge/order.h"
#include "wrap/judge/verdict.h"

#endif
