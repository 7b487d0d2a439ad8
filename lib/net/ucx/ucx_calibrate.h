/* Which way large messages travel: measured once per class of lanes and process, at first contact. */
#ifndef UCX_CALIBRATE_H
#define UCX_CALIBRATE_H

#include "ucx_comm.h"

/* Measures the lanes to one or two peers if their class is new. Not under the lock; takes at most about 50 ms, once they are connected. */
void ucx_calibrate(struct ucx_comm *c);

#endif
