#include "transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/log.h"

static uint64_t probe_mpi(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	(void)row, (void)gpus;
	snprintf(why_not, bytes, "create the communicator with corale_comm_create_mpi");
	return 0;
}

const struct transport_row transport_mpi_absent = { .name = "mpi", .probe = probe_mpi };

/* All ranks' addresses, where any has one. Collective. */
static int gather_addresses(struct transport *t, const corale_bootstrap *b, size_t most)
{
	if (!most)
		return 0;
	unsigned char *mine = calloc(1, most);
	t->stride = most;
	t->addresses = calloc((size_t)b->size, most);
	int ret = mine && t->addresses ? 0
				       : log_error(CORALE_ENOMEM, b->rank,
						   "transport %s: no memory for %d addresses of %zu bytes",
						   t->row->name, b->size, most);
	if (!ret && t->address_bytes)
		memcpy(mine, t->address, t->address_bytes);
	if (!ret)
		ret = bootstrap_gather(b, mine, most, t->addresses);
	free(mine);
	return ret;
}

int transport_open(const struct transport_row *row, const struct transport_params *params,
		   const corale_bootstrap *b, struct transport **out)
{
	struct transport *t = NULL;
	int ret = row->open(row, params, &t);
	int64_t most = ret ? 0 : (int64_t)t->address_bytes;
	if (!ret) {
		t->row = row;
		t->rank = params->rank;
		t->size = params->size;
	}
	ret = agree(b, ret, "start its transport", &most);
	if (!ret)
		ret = gather_addresses(t, b, (size_t)most);
	if (!ret)
		ret = agree(b, t->ops->connect ? t->ops->connect(t) : 0, "connect to the other nodes", NULL);
	if (ret) {
		transport_close(t);
		t = NULL;
	}
	*out = t;
	return ret;
}

int transport_control(struct transport *t, int peer, const void *message, size_t bytes)
{
	if (peer < 0 || peer >= t->size)
		return log_error(CORALE_EINVAL, t->rank, "transport %s: peer %d; expected one below %d",
				 t->row->name, peer, t->size);
	if (bytes > TRANSPORT_CONTROL_BYTES)
		return log_error(CORALE_EINVAL, t->rank,
				 "transport %s: a control message of %zu bytes; at most %d", t->row->name,
				 bytes, TRANSPORT_CONTROL_BYTES);
	return t->ops->control(t, peer, message, bytes);
}

static void (*_Atomic exit_handler)(void);

void transport_on_exit(void (*end)(void))
{
	atomic_store(&exit_handler, end);
}

void transport_exit(void)
{
	void (*end)(void) = atomic_load(&exit_handler);
	if (end)
		end();
}

void transport_close(struct transport *t)
{
	if (!t)
		return;
	unsigned char *addresses = t->addresses;
	t->ops->close(t);
	free(addresses);
}
