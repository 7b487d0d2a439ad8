/* How all ranks of a bootstrap end a phase alike. */
#ifndef AGREE_H
#define AGREE_H

#include <stdint.h>

#include "corale.h"

/*
 * Collective: 0 when every rank passes 0, else an error on all, which names the rank that is the cause. what: what that rank could not do.
 * most (NULL: none): becomes the largest of all ranks'.
 */
int agree(const corale_bootstrap *bootstrap, int status, const char *what, int64_t *most);

#endif
