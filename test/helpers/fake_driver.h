/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's memory, in tests of the GPU engine that play the driver: the host's, in units of FAKE_UNIT bytes, filled with ones. What is placed and not
 * freed is counted. Contexts and modes of capture are a thread's. All else of the driver a test plays itself.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "cuda/engine_cuda.h"

enum { FAKE_UNIT = 2 << 20, FAKE_FD = 5 };

extern _Atomic int fake_open_now; /* what is placed, reserved or opened and has not been given back */
extern unsigned char *_Atomic fake_last_placed;
extern _Atomic int fake_is_gone; /* exit() has ended the driver */
extern _Thread_local CUcontext fake_context;
extern _Thread_local enum cudaStreamCaptureMode fake_capture_mode;

/* Each call of the driver: ends the process with 99 if the driver is gone. */
void fake_call(void);

/* Entries of struct cuda_driver. */
CUresult fake_current_context(CUcontext *context);
CUresult fake_push_context(CUcontext context);
CUresult fake_pop_context(CUcontext *context);
CUresult fake_release(CUmemGenericAllocationHandle handle);
CUresult fake_reserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr wanted, uint64_t flags);
CUresult fake_unreserve(CUdeviceptr at, size_t bytes);
CUresult fake_unmap(CUdeviceptr at, size_t bytes);

#endif
