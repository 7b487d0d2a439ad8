/* What the parts of the in-process transport share. */
#ifndef TRANSPORT_INPROC_H
#define TRANSPORT_INPROC_H

#include "transport_hub.h"

struct inproc {
	struct transport base;
	struct transport_params params;
	struct hub *hub; /* rank 0's, whose address it is; NULL: not connected */
	struct hub *made;
};

extern const struct link_ops link_inproc;

#endif
