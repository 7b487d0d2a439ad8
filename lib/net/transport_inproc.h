/* What the parts of the in-process transport share. */
#ifndef TRANSPORT_INPROC_H
#define TRANSPORT_INPROC_H

#include "transport_hub.h"

struct hub *transport_inproc_hub(struct transport *t);

extern const struct link_ops link_inproc;

#endif
