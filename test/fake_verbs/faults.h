/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of the adapter. The environment variable FAKE_VERBS has them, words between blanks; it is read when a program lists its devices, and
 * a word that is unknown ends the process. A request is one posted to a connected queue pair by this process; the first one is 1.
 *
 *   rank=R            of an MPI job's processes only this rank has the faults; late and retries_ms are everybody's
 * What is there:
 *   device=no         no device is listed
 *   open=no           the device is listed, and gone when it is opened
 *   register=N        the registrations after the first N fail (ENOMEM), as when the limit of locked memory is reached
 *   register_gpu=no   registrations of GPU memory fail (EFAULT)
 *   peermem=no        no nvidia-peermem: its files are not there, and GPU memory is not registered by address (EFAULT)
 *   dmabuf=no         GPU memory is not registered by a descriptor (EOPNOTSUPP)
 * When and where bytes come:
 *   late=no           the end of a write into GPU memory is there at once. By default its last LATE_BYTES are not there before the adapter of that
 *                     memory's process has answered a read of the same registration, although write and notice have completed
 *   delay_ms=D        all that this process sends leaves D ms later
 *   reorder_pairs=yes what different queue pairs of this process send leaves in another order
 *   reorder_relaxed=yes  a write into memory registered with relaxed ordering is there after later ones into such memory, and a read of it does not
 *                     change that; a message that is received does, or some ms
 *   corrupt=N         of the N-th payload of 1024 bytes or more that this process receives, the byte in the middle is another one
 * What ends:
 *   stop=N            from request N on the adapter neither sends nor receives, and tells nobody
 *   stop_ms=T         ... and goes on after T ms (0, or not less than retries_ms: never)
 *   down=N, down_ms=T the same with the port's state and events
 *   die=N             from request N on the device is gone: IBV_EVENT_DEVICE_FATAL, all work is flushed, all calls fail, peers' retries end
 *   retries_ms=T      work to which a peer has not answered for T ms ends with IBV_WC_RETRY_EXC_ERR (0: never, the default but with stop and
 *                     down, where it is 2000)
 *
 * GPU memory is what this process maps without any access (PROT_NONE) and, once more, readable: the same pages of the same file. The adapter
 * uses the mapping that is readable; a CPU that touches the other one dies. Plain host memory is coherent and never late.
 */
#ifndef FAKE_VERBS_FAULTS_H
#define FAKE_VERBS_FAULTS_H

#include <stdint.h>

enum { LATE_BYTES = 64 };

struct fake_faults {
	long rank, device, open, most_registered, register_gpu, peermem, dmabuf;
	long late, delay_ms, reorder_pairs, reorder_relaxed, corrupt;
	long stop, stop_ms, down, down_ms, die, retries_ms;
};

extern struct fake_faults fake_faults;

/* Reads the variable, if it has changed. */
void fake_faults_read(void);

/* Something is to be done every millisecond. */
int fake_faults_are_timed(void);

/* All under the lock. A request is posted: stop, down and die may begin. */
void fake_faults_count(void);

/* The adapter has stopped, or its port is down. */
int fake_faults_halted(void);
int fake_faults_is_down(void);
int fake_faults_is_dead(void);

/* The payload that has come is the one to corrupt. */
int fake_faults_corrupts(uint64_t bytes);

uint64_t fake_now_ms(void);

#endif
