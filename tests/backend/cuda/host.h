/* host.h - a GPU of plain C, for tests: the libraries behind rt.h, blas.h, dnn.h and coll.h.
 *
 * Work is queued and done late, when somebody waits for it, so that what is read too early or freed
 * too soon shows. Addresses of its memory have a bit set that no address of a process has: whoever
 * takes them for the host's crashes, and bits that say of which device it is: a kernel that is
 * given another one's stops the test. FAKE_CUDA_DEVICES says how many devices there are (2),
 * FAKE_CUDA_ORDER in which order kernels take elements and rows (kernels_host.c),
 * FAKE_CUDA_MEMORY how many bytes each has (8 GiB), FAKE_CUDA_NAME what all of them are called,
 * FAKE_CUDA_FAIL_AT=n which call fails (counted from 1 since it was set; n+ : and all after it),
 * FAKE_CUDA_LOG a file to which every call is written when it is queued and when it is done, how
 * much memory of a device is in use, and when recordings and plans of convolutions are dropped,
 * FAKE_CUDA_REFUSES what its libraries have no way for: "epilogue" of a matrix product, "bias" of a
 * convolution, "conv" at all, "record": a call while a stream records. FAKE_CUDA_PLANS names the
 * ways that its libraries have of doing the same, a word each: "fast", "slow", "ages", "fails"
 * (when it is run), "none" (it cannot be made). Time is a clock that such runs move on.
 * FAKE_CUDA_RNN: there is a library for recurrent layers, which is "fast" or "slow", "wrong" in one
 * gate, or "fails". FAKE_CUDA_ATTEND: the same for attention; "forward": without a gradient. */
#ifndef PG_TESTS_CUDA_HOST_H
#define PG_TESTS_CUDA_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "backend/cuda/rt.h"

/* Work with a copy of its arguments. */
typedef void (*pg__fake_work)(const void *args, uint64_t n);

/* Moves the clock on. */
void pg__fake_spend(unsigned microseconds);

/* Queues it, or notes it where the stream is recording. 0, or an error that was ordered. */
int pg__fake_queue(void *stream, const char *name, pg__fake_work work, const void *args,
                   size_t n_bytes, uint64_t n);

/* From now on, or no longer, nothing may be queued there: a library is about to. */
void pg__fake_hold(void *stream, int is_held);

/* One of the calls that can be made to fail: is it this one? For what is not queued. */
int pg__fake_fails(const char *name);

/* Is it memory of the host that copies may be reading until they are done? And a copy from other
 * memory that the device reads when it gets there, as CUDA's runtime may. In the log a put from
 * other memory "waits". */
int pg__fake_is_pinned(const void *p);
int pg__fake_put_late(void *stream, void *dst, const void *src, size_t n);

/* Does it record? Its work goes to what another one records, or (NULL) no longer; how much of it
 * did; is all done that an event marks? */
int pg__fake_is_recording(void *stream);
void pg__fake_record_with(void *stream, void *with);
uint64_t pg__fake_n_recorded(void *stream);
int pg__fake_is_over(const pg__rt_event *e);

/* Is it memory of a device, and a multiple of so many bytes? */
int pg__fake_is_at(const void *p, size_t align);

/* A line of the log, for what is not queued. */
void pg__fake_note(const char *what, const char *name);

/* If set, it says whether work may come to a stream from this thread: 0, or an error. */
extern int (*pg__fake_on_work)(void *stream);

/* If set, it is told of memory: where a device and where the host has n bytes from now on; host
 * NULL: no longer. */
extern void (*pg__fake_on_memory)(const void *device, void *host, size_t n);

/* Is it among what FAKE_CUDA_REFUSES names? */
int pg__fake_refuses(const char *what);

/* Ways of doing the same, at least one; is way k there; queues the work that it does. */
size_t pg__fake_n_plans(void);
int pg__fake_has_plan(size_t k);
int pg__fake_queue_plan(void *stream, const char *name, size_t k, pg__fake_work work,
                        const void *args, size_t n_bytes, uint64_t n);

#endif
