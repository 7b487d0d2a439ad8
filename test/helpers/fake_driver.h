/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver's memory, in tests of the GPU engine that play the driver: the host's, in units of FAKE_UNIT bytes. What is placed and not freed
 * is counted. All else of the driver a test plays itself.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "cuda/engine_cuda.h"

enum { FAKE_UNIT = 2 << 20, FAKE_FD = 5 };

extern _Atomic int fake_open_now; /* what is placed, reserved or opened and has not been given back */
extern unsigned char *_Atomic fake_last_placed;

/* Entries of struct cuda_driver. */
CUresult fake_release(CUmemGenericAllocationHandle handle);
CUresult fake_reserve(CUdeviceptr *at, size_t bytes, size_t align, CUdeviceptr wanted, uint64_t flags);
CUresult fake_unreserve(CUdeviceptr at, size_t bytes);
CUresult fake_unmap(CUdeviceptr at, size_t bytes);

#endif
