/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes that have completed before all of their bytes are in memory: into GPU memory, and into memory with relaxed ordering. All under the lock. */
#ifndef FAKE_VERBS_LATE_H
#define FAKE_VERBS_LATE_H

#include "wire.h"

/* The write of this frame is one of them: its payload is not placed but given to fake_late_write. */
int fake_late_takes(const struct fake_frame *frame);

/* Places what is in time; 0: the registration does not allow the write. The payload becomes the callee's. */
int fake_late_write(const struct fake_frame *frame, unsigned char *data);

/* A read of this registration is about to be answered; a message is about to be received; some time has passed; the registration goes. */
void fake_late_read(uint32_t key);
void fake_late_receive(void);
void fake_late_tick(void);
void fake_late_forget(uint32_t key);

#endif
