/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process sends: to each other process a socket and the frames that wait for it. */
#ifndef FAKE_VERBS_OUTBOUND_H
#define FAKE_VERBS_OUTBOUND_H

/* Under the lock: sends what is queued, as far as the sockets take it. */
void fake_outbound_flush(void);

/* Closes the sockets and forgets what was queued. */
void fake_outbound_close(void);

#endif
