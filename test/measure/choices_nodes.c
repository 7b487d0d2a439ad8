/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes of any sizes on one host. CORALE_NODE_SIZE makes even ones only, so the linker puts this function between the library's call
 * of hello_topology and hello_topology itself (--wrap in Makefile.am). Cores per rank stay those of the host.
 */
#include <stdlib.h>

#include "choices.h"
#include "comm/hello.h"

int __real_hello_topology(const struct hello *all, int size, const struct settings *settings,
			  struct topo **out);
int __wrap_hello_topology(const struct hello *all, int size, const struct settings *settings,
			  struct topo **out);

static const int *ranks_of_node; /* set once, before the communicator is made */

void choices_set_nodes(const int *ranks)
{
	ranks_of_node = ranks;
}

static uint64_t *name_nodes(int size)
{
	uint64_t *node_id = calloc((size_t)size, sizeof(*node_id));
	int node = 0, left = ranks_of_node[0];
	for (int r = 0; node_id && r < size; r++) {
		if (!left)
			left = ranks_of_node[++node];
		node_id[r] = (uint64_t)node;
		left--;
	}
	return node_id;
}

int __wrap_hello_topology(const struct hello *all, int size, const struct settings *settings,
			  struct topo **out)
{
	struct topo *host = NULL;
	int ret = __real_hello_topology(all, size, settings, &host);
	uint64_t *node_id = name_nodes(size);
	if (!ret)
		ret = node_id ? topo_create(size, node_id, out) : CORALE_ENOMEM;
	if (!ret)
		(*out)->cores_per_rank_x16 = host->cores_per_rank_x16;
	free(node_id);
	topo_destroy(host);
	return ret;
}
