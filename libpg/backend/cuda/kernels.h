/* kernels.h - launching the kernels of kernels.def: pgk_launch_name(arguments, elements or rows,
 * stream), args: a pgk_name of the host. 0, or the number of a CUDA error. */
#ifndef PG_BACKEND_KERNELS_H
#define PG_BACKEND_KERNELS_H

#include "backend/cuda/k_act.h"
#include "backend/cuda/k_attention.h"
#include "backend/cuda/k_binary.h"
#include "backend/cuda/k_bn.h"
#include "backend/cuda/k_columns.h"
#include "backend/cuda/k_conv.h"
#include "backend/cuda/k_dropout.h"
#include "backend/cuda/k_embedding.h"
#include "backend/cuda/k_flat.h"
#include "backend/cuda/k_index.h"
#include "backend/cuda/k_layer_norm.h"
#include "backend/cuda/k_loss.h"
#include "backend/cuda/k_mask.h"
#include "backend/cuda/k_move.h"
#include "backend/cuda/k_normal.h"
#include "backend/cuda/k_pool.h"
#include "backend/cuda/k_resize.h"
#include "backend/cuda/k_rnn.h"
#include "backend/cuda/k_rnn_library.h"
#include "backend/cuda/k_softmax.h"
#include "backend/cuda/k_sum.h"
#include "backend/cuda/k_turn.h"
#include "backend/cuda/k_warp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or the error of a device that the kernels were not built for. */
int pgk_usable(void);

#define PGK_MAP(name)  int pgk_launch_##name(const void *args, uint64_t n, void *stream);
#define PGK_ROWS(name) int pgk_launch_##name(const void *args, uint64_t n, void *stream);
#define PGK_LINES(name) int pgk_launch_##name(const void *args, uint64_t n, void *stream);
#include "backend/cuda/kernels.def"
#undef PGK_MAP
#undef PGK_ROWS
#undef PGK_LINES

#ifdef __cplusplus
}
#endif

#endif
