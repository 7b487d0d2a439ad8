/* Which way large messages travel: measured once per class of lanes and process, at first contact. */
#ifndef UCX_CALIBRATE_H
#define UCX_CALIBRATE_H

#include "ucx_comm.h"

extern const char *const ucx_way_names[];

/* The way named by CORALE_UCX_MESSAGE, or -1: to be measured. */
int ucx_calibrate_forced(const struct settings *settings);
/* Measures the lanes to one or two peers if their class is new. Not under the lock; takes at most about 50 ms, once they are connected. */
void ucx_calibrate(struct ucx_comm *c);
/* How a large message of a link to a peer travels. Under the lock. */
enum ucx_way ucx_calibrate_way(const struct ucx_comm *c, int peer);
/* 1 if an active message behind a put can't come before it: one path carries both, in order. */
int ucx_calibrate_is_ordered(const struct ucx_class *class);
#endif
