/* The calls that a GPU has been given of late, by number: what fails there, long after the call, is named by it. */
#ifndef RECENT_H
#define RECENT_H

#include "state/comm.h"

/* To be freed by free. NULL: no memory. */
struct recent *recent_create(void);

/* Keeps n calls that start together; the number of the first one, which is 1 or more. One thread at a time; all other functions
 * beside it too. */
uint32_t recent_add(struct recent *recent, const struct call *calls, int n);

/* The number of the last call; 0: there was none. */
uint32_t recent_last(const struct recent *recent);

/* 1 if what was called last waits for that rank: it is a collective, or with this peer. */
int recent_concerns(const struct recent *recent, int rank);

/*
 * The call of a number, or of those that started with it the one with that peer, without its buffers and scalar. One that is no longer
 * kept: its coll is CORALE_NUM_COLLS.
 */
struct record recent_find(const struct recent *recent, uint32_t number, int peer);

#endif
