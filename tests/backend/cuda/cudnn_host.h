/* cudnn_host.h - what the parts of cuDNN's emulation share (cudnn_host.c: graphs; cudnn_host_rnn.c:
 * recurrent layers). */
#ifndef PG_TESTS_CUDNN_HOST_H
#define PG_TESTS_CUDNN_HOST_H

#include <cudnn.h>
#include <stddef.h>

typedef enum host_cudnn_kind {
    HOST_CUDNN_HANDLE,
    HOST_CUDNN_DESCRIPTOR,
    HOST_CUDNN_TENSOR,
    HOST_CUDNN_RNN,
    HOST_CUDNN_RNN_DATA
} host_cudnn_kind;

struct cudnnContext {
    cudaStream_t stream;
};

/* Objects: zeroed; is it one; is it one, which is no more; how many there are. */
void *host_cudnn_born(size_t size, host_cudnn_kind kind);
int host_cudnn_lives(const void *p, host_cudnn_kind kind);
int host_cudnn_dies(const void *p, host_cudnn_kind kind);
size_t host_cudnn_alive(void);

int host_cudnn_on_device(const void *p);

/* Queues work that spoils its workspace. */
cudnnStatus_t host_cudnn_run(cudnnHandle_t h, const char *name, void *workspace, size_t n);

#endif
