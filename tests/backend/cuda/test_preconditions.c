/* What the manuals of the CUDA runtime and of cuBLASLt demand of a call (PRECONDITIONS.md) is
 * refused by their emulations where it is missing (cudart_host.c, lt_host.c). */
#include "pg_test.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

#include "backend/cuda/kernels.h"

typedef struct refused {
    const char *what;
    int (*call)(void);
    int by;
} refused;

static void check_all(const refused *all, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const int s = all[k].call();
        if (s != all[k].by)
            fail_msg("%s: %d, not %d", all[k].what, s, all[k].by);
        (void)cudaGetLastError();
    }
}
#define CHECK_ALL(all) check_all(all, sizeof(all) / sizeof *(all))

/* ---- of the runtime ---- */

#define BYTES 4096

/* Two streams of the first device, memory there, pinned and other memory of the host. */
static struct bench {
    cudaStream_t s, other;
    char *at, *pinned;
    char own[BYTES];
} on;

static void ok(cudaError_t e)
{
    if (e != cudaSuccess)
        fail_msg("%d: %s", (int)e, cudaGetErrorString(e));
}

static cudaStream_t new_stream(void)
{
    cudaStream_t s = NULL;
    ok(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t new_event(void)
{
    cudaEvent_t e = NULL;
    ok(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

static int open_bench(void **state)
{
    void *p = NULL;
    (void)state;
    ok(cudaSetDevice(0));
    on.s = new_stream();
    on.other = new_stream();
    ok(cudaMalloc(&p, BYTES));
    on.at = p;
    ok(cudaHostAlloc(&p, BYTES, cudaHostAllocPortable));
    on.pinned = p;
    return 0;
}

static int close_bench(void **state)
{
    (void)state;
    ok(cudaSetDevice(0));
    ok(cudaStreamDestroy(on.s));
    ok(cudaStreamDestroy(on.other));
    ok(cudaFree(on.at));
    ok(cudaFreeHost(on.pinned));
    return 0;
}

/* ---- devices and memory ---- */

static int a_device_too_many(void)
{
    return (int)cudaSetDevice(2);
}

static int properties_of_a_device_too_many(void)
{
    struct cudaDeviceProp p;
    return (int)cudaGetDeviceProperties(&p, 2);
}

static int its_own_peer(void)
{
    return (int)cudaDeviceEnablePeerAccess(0, 0);
}

static int a_peer_twice(void)
{
    (void)cudaDeviceEnablePeerAccess(1, 0);
    return (int)cudaDeviceEnablePeerAccess(1, 0);
}

static int a_peer_with_flags(void)
{
    return (int)cudaDeviceEnablePeerAccess(1, 1);
}

static int freed_twice(void)
{
    void *p = NULL;
    ok(cudaMalloc(&p, 16));
    ok(cudaFree(p));
    return (int)cudaFree(p);
}

static int freed_from_the_middle(void)
{
    return (int)cudaFree(on.at + 256);
}

static int memory_of_the_host_freed_twice(void)
{
    void *p = NULL;
    ok(cudaHostAlloc(&p, 16, cudaHostAllocPortable));
    ok(cudaFreeHost(p));
    return (int)cudaFreeHost(p);
}

static int put(void *dst, const void *src, size_t n)
{
    return (int)cudaMemcpyAsync(dst, src, n, cudaMemcpyHostToDevice, on.s);
}

static int a_copy_past_the_end(void)
{
    return put(on.at + 1, on.pinned, BYTES);
}

static int a_copy_to_the_host_as_to_the_device(void)
{
    return put(on.own, on.pinned, 16);
}

static int a_copy_past_the_end_within(void)
{
    return (int)cudaMemcpyAsync(on.at, on.at + 16, BYTES, cudaMemcpyDeviceToDevice, on.s);
}

static int zeros_past_the_end(void)
{
    return (int)cudaMemsetAsync(on.at + 16, 0, BYTES, on.s);
}

static int zeros_of_what_is_freed(void)
{
    void *p = NULL;
    ok(cudaMalloc(&p, 16));
    ok(cudaFree(p));
    return (int)cudaMemsetAsync(p, 0, 16, on.s);
}

static int from_the_same_device_as_another(void)
{
    return (int)cudaMemcpyPeerAsync(on.at, 0, on.at, 0, 16, on.s);
}

static int from_memory_that_another_device_has_not(void)
{
    return (int)cudaMemcpyPeerAsync(on.at, 0, on.at, 1, 16, on.s);
}

static const refused of_memory[] = {
    {"a device too many", a_device_too_many, cudaErrorInvalidDevice},
    {"its properties", properties_of_a_device_too_many, cudaErrorInvalidDevice},
    {"its own peer", its_own_peer, cudaErrorInvalidDevice},
    {"a peer twice", a_peer_twice, cudaErrorPeerAccessAlreadyEnabled},
    {"a peer with flags", a_peer_with_flags, cudaErrorInvalidValue},
    {"freed twice", freed_twice, cudaErrorInvalidValue},
    {"freed from the middle", freed_from_the_middle, cudaErrorInvalidValue},
    {"pinned, freed twice", memory_of_the_host_freed_twice, cudaErrorInvalidValue},
    {"a copy past the end", a_copy_past_the_end, cudaErrorInvalidValue},
    {"a copy in the wrong direction", a_copy_to_the_host_as_to_the_device, cudaErrorInvalidValue},
    {"a copy past the end within", a_copy_past_the_end_within, cudaErrorInvalidValue},
    {"zeros past the end", zeros_past_the_end, cudaErrorInvalidValue},
    {"zeros of what is freed", zeros_of_what_is_freed, cudaErrorInvalidValue},
    {"a peer that is no other", from_the_same_device_as_another, cudaErrorInvalidDevice},
    {"not the peer's", from_memory_that_another_device_has_not, cudaErrorInvalidValue},
};

static void memory_is_as_it_must_be(void **state)
{
    (void)state;
    CHECK_ALL(of_memory);
}

/* ---- streams and events ---- */

static int a_stream_that_is_gone(void)
{
    const cudaStream_t s = new_stream();
    ok(cudaStreamDestroy(s));
    return (int)cudaStreamSynchronize(s);
}

static int a_stream_destroyed_twice(void)
{
    const cudaStream_t s = new_stream();
    ok(cudaStreamDestroy(s));
    return (int)cudaStreamDestroy(s);
}

static int a_stream_that_blocks(void)
{
    cudaStream_t s;
    return (int)cudaStreamCreateWithFlags(&s, cudaStreamDefault);
}

static int a_stream_of_another_device(void)
{
    ok(cudaSetDevice(1));
    const int e = (int)cudaMemsetAsync(on.at, 0, 16, on.s);
    ok(cudaSetDevice(0));
    return e;
}

/* Of nothing. */
static int kernel_on(cudaStream_t s)
{
    const pgk_add a = {.n = 0};
    return pgk_launch_add(&a, 0, s);
}

static int a_kernel(void)
{
    return kernel_on(on.s);
}

static int a_kernel_of_another_device(void)
{
    ok(cudaSetDevice(1));
    const int e = kernel_on(on.s);
    ok(cudaSetDevice(0));
    return e;
}

static int a_kernel_on_a_stream_that_is_gone(void)
{
    const cudaStream_t s = new_stream();
    ok(cudaStreamDestroy(s));
    return kernel_on(s);
}

static int an_event_of_another_device(void)
{
    ok(cudaSetDevice(1));
    const cudaEvent_t e = new_event();
    ok(cudaSetDevice(0));
    const int r = (int)cudaEventRecord(e, on.s);
    ok(cudaEventDestroy(e));
    return r;
}

static int an_event_that_is_gone(void)
{
    const cudaEvent_t e = new_event();
    ok(cudaEventDestroy(e));
    return (int)cudaEventRecord(e, on.s);
}

static int an_event_destroyed_twice(void)
{
    const cudaEvent_t e = new_event();
    ok(cudaEventDestroy(e));
    return (int)cudaEventDestroy(e);
}

static int a_wait_for_an_event_that_is_gone(void)
{
    const cudaEvent_t e = new_event();
    ok(cudaEventDestroy(e));
    return (int)cudaStreamWaitEvent(on.s, e, 0);
}

/* It is an empty set of work. */
static int a_wait_for_an_event_without_a_mark(void)
{
    const cudaEvent_t e = new_event();
    const int r = (int)cudaStreamWaitEvent(on.s, e, 0);
    ok(cudaEventDestroy(e));
    return r;
}

/* Of two events; which of them are marked, and is it waited for? */
static int time_between(unsigned flags, int n_marks, int waits)
{
    cudaEvent_t e[2] = {NULL};
    float ms;
    for (int k = 0; k < 2; k++)
        ok(flags ? cudaEventCreateWithFlags(&e[k], flags) : cudaEventCreate(&e[k]));
    for (int k = 0; k < n_marks; k++) {
        ok(cudaMemsetAsync(on.at, 0, 16, on.s));
        ok(cudaEventRecord(e[k], on.s));
    }
    if (waits)
        ok(cudaEventSynchronize(e[1]));
    const int r = (int)cudaEventElapsedTime(&ms, e[0], e[1]);
    for (int k = 0; k < 2; k++)
        ok(cudaEventDestroy(e[k]));
    return r;
}

static int time_of_two_devices(void)
{
    cudaEvent_t e[2] = {NULL};
    float ms;
    for (int k = 1; k >= 0; k--) {
        ok(cudaSetDevice(k));
        const cudaStream_t s = new_stream();
        ok(cudaEventCreate(&e[k]));
        ok(cudaEventRecord(e[k], s));
        ok(cudaStreamSynchronize(s));
        ok(cudaStreamDestroy(s));
    }
    const int r = (int)cudaEventElapsedTime(&ms, e[0], e[1]);
    for (int k = 0; k < 2; k++)
        ok(cudaEventDestroy(e[k]));
    return r;
}

static int time_of_events(void)
{
    return time_between(0, 2, 1);
}

static int time_without_a_mark(void)
{
    return time_between(0, 1, 1);
}

static int time_that_is_not_over(void)
{
    return time_between(0, 2, 0);
}

static int time_of_events_without_clocks(void)
{
    return time_between(cudaEventDisableTiming, 2, 1);
}

static const refused of_streams[] = {
    {"a stream that is gone", a_stream_that_is_gone, cudaErrorInvalidResourceHandle},
    {"a stream destroyed twice", a_stream_destroyed_twice, cudaErrorInvalidResourceHandle},
    {"a stream that blocks", a_stream_that_blocks, cudaErrorInvalidValue},
    {"a stream of another device", a_stream_of_another_device, cudaErrorInvalidResourceHandle},
    {"a kernel", a_kernel, cudaSuccess},
    {"a kernel of another device", a_kernel_of_another_device, cudaErrorInvalidResourceHandle},
    {"a kernel on what is gone", a_kernel_on_a_stream_that_is_gone, cudaErrorInvalidResourceHandle},
    {"an event of another device", an_event_of_another_device, cudaErrorInvalidResourceHandle},
    {"an event that is gone", an_event_that_is_gone, cudaErrorInvalidResourceHandle},
    {"an event destroyed twice", an_event_destroyed_twice, cudaErrorInvalidResourceHandle},
    {"a wait for what is gone", a_wait_for_an_event_that_is_gone, cudaErrorInvalidResourceHandle},
    {"a wait for no mark", a_wait_for_an_event_without_a_mark, cudaSuccess},
    {"time", time_of_events, cudaSuccess},
    {"time without a mark", time_without_a_mark, cudaErrorInvalidResourceHandle},
    {"time that is not over", time_that_is_not_over, cudaErrorNotReady},
    {"time of two devices", time_of_two_devices, cudaErrorInvalidResourceHandle},
    {"time without clocks", time_of_events_without_clocks, cudaErrorInvalidResourceHandle},
};

static void streams_and_events_live(void **state)
{
    (void)state;
    CHECK_ALL(of_streams);
}

/* ---- recordings ---- */

static void begin(void)
{
    ok(cudaStreamBeginCapture(on.s, cudaStreamCaptureModeThreadLocal));
}

static cudaError_t end(void)
{
    cudaGraph_t g = NULL;
    const cudaError_t e = cudaStreamEndCapture(on.s, &g);
    assert_int_equal(g != NULL, e == cudaSuccess);
    if (g)
        ok(cudaGraphDestroy(g));
    return e;
}

/* In a recording, which a refusal spoils; what follows is refused for that. */
static int while_recording(cudaError_t (*call)(void))
{
    begin();
    const cudaError_t e = call();
    if (e != cudaSuccess) {
        assert_int_equal(cudaMemsetAsync(on.at, 0, 16, on.s), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(kernel_on(on.s), cudaErrorStreamCaptureInvalidated);
        assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    } else
        ok(end());
    return (int)e;
}

#define WHILE_RECORDING(name, expression) \
    static cudaError_t name##_(void)      \
    {                                     \
        return expression;                \
    }                                     \
    static int name(void)                 \
    {                                     \
        return while_recording(name##_);  \
    }

static void *unused;
WHILE_RECORDING(wait_for_it, cudaStreamSynchronize(on.s))
WHILE_RECORDING(ask_for_it, cudaStreamQuery(on.s))
WHILE_RECORDING(wait_for_another, cudaStreamSynchronize(on.other))
WHILE_RECORDING(allocate, cudaMalloc(&unused, 16))
WHILE_RECORDING(allocate_pinned, cudaHostAlloc(&unused, 16, cudaHostAllocPortable))
WHILE_RECORDING(free_memory, cudaFree(on.at))
WHILE_RECORDING(free_pinned, cudaFreeHost(on.pinned))
WHILE_RECORDING(enable_a_peer, cudaDeviceEnablePeerAccess(1, 0))
WHILE_RECORDING(zeros, cudaMemsetAsync(on.at, 0, 16, on.s))
WHILE_RECORDING(a_pinned_put, (cudaError_t)put(on.at, on.pinned, 16))
WHILE_RECORDING(a_put, (cudaError_t)put(on.at, on.own, 16))
WHILE_RECORDING(a_get, cudaMemcpyAsync(on.own, on.at, 16, cudaMemcpyDeviceToHost, on.s))

/* Of a mark outside of the recording. */
static cudaError_t wait_across(void)
{
    const cudaEvent_t e = new_event();
    ok(cudaEventRecord(e, on.other));
    const cudaError_t r = cudaStreamWaitEvent(on.s, e, 0);
    ok(cudaEventDestroy(e));
    return r;
}
WHILE_RECORDING(a_wait_across_the_edge, wait_across())

static cudaError_t wait_for_mark(void)
{
    const cudaEvent_t e = new_event();
    ok(cudaEventRecord(e, on.s));
    const cudaError_t r = cudaEventSynchronize(e);
    ok(cudaEventDestroy(e));
    return r;
}
WHILE_RECORDING(a_recorded_mark_waited_for, wait_for_mark())

static int another_begun_in_it(void)
{
    begin();
    const int e = (int)cudaStreamBeginCapture(on.s, cudaStreamCaptureModeThreadLocal);
    ok(end());
    return e;
}

static int an_end_without_a_beginning(void)
{
    return (int)end();
}

static void *end_it(void *of)
{
    *(cudaError_t *)of = end();
    return NULL;
}

static int an_end_in_another_thread(void)
{
    pthread_t t;
    cudaError_t e = cudaSuccess;
    begin();
    assert_int_equal(pthread_create(&t, NULL, end_it, &e), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    ok(end());
    return (int)e;
}

/* The other stream becomes a part of it; is it told of what that does, and does it work then? */
static cudaError_t fork_of(int works, int joins)
{
    const cudaEvent_t e = new_event(), back = new_event();
    begin();
    ok(cudaEventRecord(e, on.s));
    ok(cudaStreamWaitEvent(on.other, e, 0));
    ok(cudaMemsetAsync(on.at, 0, 16, on.other));
    ok(cudaEventRecord(back, on.other));
    if (joins)
        ok(cudaStreamWaitEvent(on.s, back, 0));
    if (works)
        ok(cudaMemsetAsync(on.at, 0, 16, on.other));
    const cudaError_t r = end();
    ok(cudaEventDestroy(e));
    ok(cudaEventDestroy(back));
    ok(cudaStreamSynchronize(on.other));
    return r;
}

static int a_fork_and_a_join(void)
{
    return (int)fork_of(0, 1);
}

static int a_fork_without_a_join(void)
{
    return (int)fork_of(0, 0);
}

static int work_behind_the_join(void)
{
    return (int)fork_of(1, 1);
}

static int an_end_on_the_other_stream(void)
{
    cudaGraph_t g = NULL;
    const cudaEvent_t e = new_event();
    begin();
    ok(cudaEventRecord(e, on.s));
    ok(cudaStreamWaitEvent(on.other, e, 0));
    const int r = (int)cudaStreamEndCapture(on.other, &g);
    ok(cudaEventRecord(e, on.other));
    ok(cudaStreamWaitEvent(on.s, e, 0));
    ok(end());
    ok(cudaEventDestroy(e));
    return r;
}

static int two_recordings_together(void)
{
    cudaGraph_t g = NULL;
    const cudaEvent_t e = new_event();
    begin();
    ok(cudaStreamBeginCapture(on.other, cudaStreamCaptureModeThreadLocal));
    ok(cudaEventRecord(e, on.s));
    const int r = (int)cudaStreamWaitEvent(on.other, e, 0);
    assert_int_equal(cudaStreamEndCapture(on.other, &g), cudaErrorStreamCaptureInvalidated);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    ok(cudaEventDestroy(e));
    return r;
}

static int a_mark_of_a_recording_that_is_over(void)
{
    const cudaEvent_t e = new_event();
    begin();
    ok(cudaEventRecord(e, on.s));
    ok(end());
    const int r = (int)cudaStreamWaitEvent(on.other, e, 0);
    ok(cudaEventDestroy(e));
    return r;
}

static const refused of_recordings[] = {
    {"a wait for it", wait_for_it, cudaErrorStreamCaptureUnsupported},
    {"a question", ask_for_it, cudaErrorStreamCaptureUnsupported},
    {"a wait for another stream", wait_for_another, cudaErrorStreamCaptureUnsupported},
    {"memory", allocate, cudaErrorStreamCaptureUnsupported},
    {"pinned memory", allocate_pinned, cudaErrorStreamCaptureUnsupported},
    {"memory freed", free_memory, cudaErrorStreamCaptureUnsupported},
    {"pinned memory freed", free_pinned, cudaErrorStreamCaptureUnsupported},
    {"a peer", enable_a_peer, cudaErrorStreamCaptureUnsupported},
    {"zeros", zeros, cudaSuccess},
    {"a put from pinned memory", a_pinned_put, cudaSuccess},
    {"a put from other memory", a_put, cudaErrorStreamCaptureUnsupported},
    {"a get to other memory", a_get, cudaErrorStreamCaptureUnsupported},
    {"a wait across its edge", a_wait_across_the_edge, cudaErrorStreamCaptureIsolation},
    {"a mark in it waited for", a_recorded_mark_waited_for, cudaErrorCapturedEvent},
    {"another one", another_begun_in_it, cudaErrorIllegalState},
    {"an end without a beginning", an_end_without_a_beginning, cudaErrorIllegalState},
    {"an end in another thread", an_end_in_another_thread, cudaErrorStreamCaptureWrongThread},
    {"an end on another stream", an_end_on_the_other_stream, cudaErrorStreamCaptureUnmatched},
    {"a fork and a join", a_fork_and_a_join, cudaSuccess},
    {"a fork without a join", a_fork_without_a_join, cudaErrorStreamCaptureUnjoined},
    {"work behind the join", work_behind_the_join, cudaErrorStreamCaptureUnjoined},
    {"two recordings together", two_recordings_together, cudaErrorStreamCaptureMerge},
    {"a mark of one that is over", a_mark_of_a_recording_that_is_over, cudaErrorCapturedEvent},
};

static void recordings_hold_what_they_may(void **state)
{
    (void)state;
    CHECK_ALL(of_recordings);
}

/* ---- executables ---- */

static cudaGraphExec_t executable(cudaGraph_t *g)
{
    cudaGraphExec_t e = NULL;
    begin();
    ok(cudaMemsetAsync(on.at, 0, 16, on.s));
    ok(cudaStreamEndCapture(on.s, g));
    ok(cudaGraphInstantiate(&e, *g, 0));
    return e;
}

static int launch_behind_its_graph(void)
{
    cudaGraph_t g;
    const cudaGraphExec_t e = executable(&g);
    ok(cudaGraphDestroy(g));
    ok(cudaGraphUpload(e, on.s));
    const int r = (int)cudaGraphLaunch(e, on.s);
    ok(cudaGraphExecDestroy(e));
    ok(cudaStreamSynchronize(on.s));
    return r;
}

static int launch_what_is_gone(void)
{
    cudaGraph_t g;
    const cudaGraphExec_t e = executable(&g);
    ok(cudaGraphDestroy(g));
    ok(cudaGraphExecDestroy(e));
    return (int)cudaGraphLaunch(e, on.s);
}

static int launch_while_recording(void)
{
    cudaGraph_t g;
    const cudaGraphExec_t e = executable(&g);
    begin();
    const int r = (int)cudaGraphLaunch(e, on.s);
    assert_int_equal(end(), cudaErrorStreamCaptureInvalidated);
    ok(cudaGraphDestroy(g));
    ok(cudaGraphExecDestroy(e));
    return r;
}

static int a_graph_destroyed_twice(void)
{
    cudaGraph_t g;
    ok(cudaGraphExecDestroy(executable(&g)));
    ok(cudaGraphDestroy(g));
    return (int)cudaGraphDestroy(g);
}

static int an_executable_destroyed_twice(void)
{
    cudaGraph_t g;
    const cudaGraphExec_t e = executable(&g);
    ok(cudaGraphDestroy(g));
    ok(cudaGraphExecDestroy(e));
    return (int)cudaGraphExecDestroy(e);
}

static int an_executable_of_no_graph(void)
{
    cudaGraph_t g;
    cudaGraphExec_t e = executable(&g);
    ok(cudaGraphDestroy(g));
    ok(cudaGraphExecDestroy(e));
    return (int)cudaGraphInstantiate(&e, g, 0);
}

static const refused of_graphs[] = {
    {"a launch when its graph is gone", launch_behind_its_graph, cudaSuccess},
    {"a launch of what is gone", launch_what_is_gone, cudaErrorInvalidValue},
    {"a launch in a recording", launch_while_recording, cudaErrorStreamCaptureUnsupported},
    {"a graph destroyed twice", a_graph_destroyed_twice, cudaErrorInvalidValue},
    {"an executable destroyed twice", an_executable_destroyed_twice, cudaErrorInvalidValue},
    {"an executable of no graph", an_executable_of_no_graph, cudaErrorInvalidValue},
};

static void graphs_live(void **state)
{
    (void)state;
    CHECK_ALL(of_graphs);
}

/* ---- of cuBLASLt ---- */

/* A product of columns: 8 x 4 by 4 x 6, by an algorithm that was asked for. */
typedef struct product {
    cublasLtHandle_t h;
    cublasLtMatmulDescOpaque_t op;
    cublasLtMatrixLayoutOpaque_t a, b, c;
    cublasLtMatmulPreferenceOpaque_t pref;
    cublasLtMatmulHeuristicResult_t found;
} product;

#define SET(call, object, name, type, v) \
    assert_int_equal(call(object, name, &(type){v}, sizeof(type)), CUBLAS_STATUS_SUCCESS)
#define OP(p, name, type, v) \
    SET(cublasLtMatmulDescSetAttribute, &(p)->op, CUBLASLT_MATMUL_DESC_##name, type, v)
#define LAYOUT(m, name, type, v) \
    SET(cublasLtMatrixLayoutSetAttribute, m, CUBLASLT_MATRIX_LAYOUT_##name, type, v)
#define PREF(p, name, type, v) \
    SET(cublasLtMatmulPreferenceSetAttribute, &(p)->pref, CUBLASLT_MATMUL_PREF_##name, type, v)

static void describe(product *p)
{
    assert_int_equal(cublasLtCreate(&p->h), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatmulDescInit(&p->op, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    assert_int_equal(cublasLtMatrixLayoutInit(&p->a, CUDA_R_32F, 8, 4, 8), 0);
    assert_int_equal(cublasLtMatrixLayoutInit(&p->b, CUDA_R_32F, 4, 6, 4), 0);
    assert_int_equal(cublasLtMatrixLayoutInit(&p->c, CUDA_R_32F, 8, 6, 8), 0);
    assert_int_equal(cublasLtMatmulPreferenceInit(&p->pref), 0);
    PREF(p, MAX_WORKSPACE_BYTES, uint64_t, 1 << 20);
    PREF(p, MIN_ALIGNMENT_A_BYTES, uint32_t, 16);
    PREF(p, MIN_ALIGNMENT_B_BYTES, uint32_t, 16);
    PREF(p, MIN_ALIGNMENT_C_BYTES, uint32_t, 16);
    PREF(p, MIN_ALIGNMENT_D_BYTES, uint32_t, 16);
}

static cublasStatus_t ask(product *p)
{
    int n = 0;
    return cublasLtMatmulAlgoGetHeuristic(p->h, &p->op, &p->a, &p->b, &p->c, &p->c, &p->pref, 1,
                                          &p->found, &n);
}

/* Where its arrays lie. */
typedef struct places {
    char *a, *b, *c, *to, *workspace;
    size_t n_workspace;
} places;

static places usual(const product *p)
{
    return (places){on.at,       on.at + 256,  on.at + 512,
                    on.at + 512, on.at + 1024, p->found.workspaceSize};
}

static cublasStatus_t run(const product *p, const places *at)
{
    product q = *p;
    const float one = 1, zero = 0;
    return cublasLtMatmul(q.h, &q.op, &one, at->a, &q.a, at->b, &q.b, &zero, at->c, &q.c, at->to,
                          &q.c, &q.found.algo, at->workspace, at->n_workspace, on.s);
}

/* Begins a product that could run. */
static places able(product *p)
{
    describe(p);
    assert_int_equal(ask(p), CUBLAS_STATUS_SUCCESS);
    return usual(p);
}

static int over(const product *p, cublasStatus_t s)
{
    assert_int_equal(cublasLtDestroy(p->h), CUBLAS_STATUS_SUCCESS);
    ok(cudaStreamSynchronize(on.s));
    return (int)s;
}

#define RUN(name, change)              \
    static int name(void)              \
    {                                  \
        product p;                     \
        places at = able(&p);          \
        change;                        \
        return over(&p, run(&p, &at)); \
    }
#define ASK(name, change)         \
    static int name(void)         \
    {                             \
        product p;                \
        describe(&p);             \
        change;                   \
        return over(&p, ask(&p)); \
    }

RUN(a_product, (void)at)
RUN(an_odd_address, at.a += 8)
RUN(an_odd_second_address, at.b += 8)
RUN(an_odd_result, at.c = at.to += 8)
RUN(an_odd_workspace, at.workspace += 128)
RUN(too_small_a_workspace, at.n_workspace--)
RUN(no_workspace, at.workspace = NULL)
RUN(no_first_factor, at.a = NULL)
RUN(an_algorithm_of_another_layout, LAYOUT(&p.a, LD, int64_t, 12))
RUN(an_algorithm_of_another_transpose, {
    assert_int_equal(cublasLtMatrixLayoutInit(&p.a, CUDA_R_32F, 4, 8, 4), 0);
    OP(&p, TRANSA, int32_t, CUBLAS_OP_T);
})
RUN(an_algorithm_of_a_batch, LAYOUT(&p.a, BATCH_COUNT, int32_t, 2))
ASK(sizes_that_do_not_fit, LAYOUT(&p.b, ROWS, uint64_t, 5))
ASK(batches_that_differ, LAYOUT(&p.b, BATCH_COUNT, int32_t, 2))
ASK(a_batch_of_none, {
    LAYOUT(&p.a, BATCH_COUNT, int32_t, 0);
    LAYOUT(&p.b, BATCH_COUNT, int32_t, 0);
    LAYOUT(&p.c, BATCH_COUNT, int32_t, 0);
})
ASK(results_upon_each_other, {
    LAYOUT(&p.a, BATCH_COUNT, int32_t, 2);
    LAYOUT(&p.b, BATCH_COUNT, int32_t, 2);
    LAYOUT(&p.c, BATCH_COUNT, int32_t, 2);
})
ASK(factors_of_two_types,
    { assert_int_equal(cublasLtMatrixLayoutInit(&p.b, CUDA_R_16BF, 4, 6, 4), 0); })
ASK(no_bias, OP(&p, EPILOGUE, int32_t, CUBLASLT_EPILOGUE_BIAS))
ASK(a_bias_of_another_type, {
    OP(&p, EPILOGUE, int32_t, CUBLASLT_EPILOGUE_BIAS);
    OP(&p, BIAS_POINTER, char *, on.at + 2048);
    OP(&p, BIAS_DATA_TYPE, int32_t, CUDA_R_16BF);
})
ASK(gradients_of_biases_upon_each_other, {
    LAYOUT(&p.a, BATCH_COUNT, int32_t, 2);
    LAYOUT(&p.b, BATCH_COUNT, int32_t, 2);
    LAYOUT(&p.c, BATCH_COUNT, int32_t, 2);
    LAYOUT(&p.c, STRIDED_BATCH_OFFSET, int64_t, 48);
    OP(&p, EPILOGUE, int32_t, CUBLASLT_EPILOGUE_BGRADA);
    OP(&p, BIAS_POINTER, char *, on.at + 2048);
    OP(&p, BIAS_DATA_TYPE, int32_t, CUDA_R_32F);
})

RUN(an_operation_that_is_not_initialised, memset(&p.op, 0, sizeof p.op))
ASK(preferences_that_are_not_initialised, memset(&p.pref, 0, sizeof p.pref))

static int a_result_of_another_layout(void)
{
    product p;
    const places at = able(&p);
    cublasLtMatrixLayoutOpaque_t other = p.c;
    const float one = 1, zero = 0;
    LAYOUT(&other, LD, int64_t, 12);
    return over(&p, cublasLtMatmul(p.h, &p.op, &one, at.a, &p.a, at.b, &p.b, &zero, at.c, &other,
                                   at.to, &p.c, &p.found.algo, at.workspace, at.n_workspace, on.s));
}

static int no_factor_of_the_result(void)
{
    product p;
    const places at = able(&p);
    const float one = 1;
    return over(&p, cublasLtMatmul(p.h, &p.op, &one, at.a, &p.a, at.b, &p.b, NULL, at.c, &p.c,
                                   at.to, &p.c, &p.found.algo, at.workspace, at.n_workspace, on.s));
}

static int an_attribute_of_another_size(void)
{
    const int16_t batch = 1;
    cublasLtMatrixLayoutOpaque_t m;
    assert_int_equal(cublasLtMatrixLayoutInit(&m, CUDA_R_32F, 8, 4, 8), 0);
    return (int)cublasLtMatrixLayoutSetAttribute(&m, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                 sizeof batch);
}

static int a_bias_less_aligned_than_it_was(void)
{
    product p;
    describe(&p);
    OP(&p, EPILOGUE, int32_t, CUBLASLT_EPILOGUE_BIAS);
    OP(&p, BIAS_POINTER, char *, on.at + 2048);
    OP(&p, BIAS_DATA_TYPE, int32_t, CUDA_R_32F);
    assert_int_equal(ask(&p), CUBLAS_STATUS_SUCCESS);
    OP(&p, BIAS_POINTER, char *, on.at + 2052);
    const places at = usual(&p);
    return over(&p, run(&p, &at));
}

static int too_small_a_leading_dimension(void)
{
    cublasLtMatrixLayoutOpaque_t m;
    return (int)cublasLtMatrixLayoutInit(&m, CUDA_R_32F, 8, 4, 7);
}

static int a_handle_that_is_gone(void)
{
    product p;
    describe(&p);
    assert_int_equal(cublasLtDestroy(p.h), CUBLAS_STATUS_SUCCESS);
    return (int)ask(&p);
}

static int a_handle_destroyed_twice(void)
{
    cublasLtHandle_t h = NULL;
    assert_int_equal(cublasLtCreate(&h), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtDestroy(h), CUBLAS_STATUS_SUCCESS);
    return (int)cublasLtDestroy(h);
}

static const refused of_products[] = {
    {"a product", a_product, CUBLAS_STATUS_SUCCESS},
    {"an odd address", an_odd_address, CUBLAS_STATUS_INVALID_VALUE},
    {"an odd second address", an_odd_second_address, CUBLAS_STATUS_INVALID_VALUE},
    {"an odd result", an_odd_result, CUBLAS_STATUS_INVALID_VALUE},
    {"an odd workspace", an_odd_workspace, CUBLAS_STATUS_INVALID_VALUE},
    {"too small a workspace", too_small_a_workspace, CUBLAS_STATUS_INVALID_VALUE},
    {"no workspace", no_workspace, CUBLAS_STATUS_INVALID_VALUE},
    {"no first factor", no_first_factor, CUBLAS_STATUS_INVALID_VALUE},
    {"an algorithm of another layout", an_algorithm_of_another_layout, CUBLAS_STATUS_INVALID_VALUE},
    {"of another transpose", an_algorithm_of_another_transpose, CUBLAS_STATUS_INVALID_VALUE},
    {"of a batch", an_algorithm_of_a_batch, CUBLAS_STATUS_INVALID_VALUE},
    {"sizes that do not fit", sizes_that_do_not_fit, CUBLAS_STATUS_INVALID_VALUE},
    {"batches that differ", batches_that_differ, CUBLAS_STATUS_INVALID_VALUE},
    {"a batch of none", a_batch_of_none, CUBLAS_STATUS_INVALID_VALUE},
    {"results upon each other", results_upon_each_other, CUBLAS_STATUS_INVALID_VALUE},
    {"factors of two types", factors_of_two_types, CUBLAS_STATUS_NOT_SUPPORTED},
    {"no bias", no_bias, CUBLAS_STATUS_INVALID_VALUE},
    {"a bias of another type", a_bias_of_another_type, CUBLAS_STATUS_NOT_SUPPORTED},
    {"gradients upon each other", gradients_of_biases_upon_each_other, CUBLAS_STATUS_INVALID_VALUE},
    {"a bias less aligned", a_bias_less_aligned_than_it_was, CUBLAS_STATUS_INVALID_VALUE},
    {"an operation not initialised", an_operation_that_is_not_initialised,
     CUBLAS_STATUS_INVALID_VALUE},
    {"preferences not initialised", preferences_that_are_not_initialised,
     CUBLAS_STATUS_INVALID_VALUE},
    {"a result of another layout", a_result_of_another_layout, CUBLAS_STATUS_INVALID_VALUE},
    {"no factor of the result", no_factor_of_the_result, CUBLAS_STATUS_INVALID_VALUE},
    {"an attribute of another size", an_attribute_of_another_size, CUBLAS_STATUS_INVALID_VALUE},
    {"too small a leading dimension", too_small_a_leading_dimension, CUBLAS_STATUS_INVALID_VALUE},
    {"a handle that is gone", a_handle_that_is_gone, CUBLAS_STATUS_NOT_INITIALIZED},
    {"a handle destroyed twice", a_handle_destroyed_twice, CUBLAS_STATUS_INVALID_VALUE},
};

static void products_are_as_they_must_be(void **state)
{
    (void)state;
    CHECK_ALL(of_products);
}

PG_TEST_MAIN_WITH(open_bench, close_bench, cmocka_unit_test(memory_is_as_it_must_be),
                  cmocka_unit_test(streams_and_events_live),
                  cmocka_unit_test(recordings_hold_what_they_may), cmocka_unit_test(graphs_live),
                  cmocka_unit_test(products_are_as_they_must_be))
