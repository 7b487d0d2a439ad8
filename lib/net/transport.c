/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange.h"
#include "base/log.h"

static uint64_t probe_mpi(const struct transport_row *row, int gpus, char *why_not, size_t bytes)
{
	(void)row, (void)gpus;
	snprintf(why_not, bytes, "create the communicator with corale_comm_create_mpi");
	return 0;
}

const struct transport_row transport_mpi_absent = { .name = "mpi", .probe = probe_mpi };

/* A rank's address, or of a longer one its length alone. */
struct short_address {
	uint64_t bytes;
	unsigned char address[504];
};

static int no_memory(const struct transport *t, const corale_bootstrap *b)
{
	return log_error(CORALE_ENOMEM, b->rank, "transport %s: no memory for %d addresses of %zu bytes",
			 t->row->name, b->size, t->stride);
}

/* Where some rank's address is long. Collective. */
static int gather_long(struct transport *t, const corale_bootstrap *b)
{
	unsigned char *mine = calloc(1, t->stride);
	int ret = mine ? 0 : no_memory(t, b);
	if (!ret && t->address_bytes)
		memcpy(mine, t->address, t->address_bytes);
	if (!ret)
		ret = bootstrap_gather(b, mine, t->stride, t->addresses);
	free(mine);
	return ret;
}

/* All ranks' addresses, where any has one. Collective. */
static int gather_addresses(struct transport *t, const corale_bootstrap *b, const struct short_address *all)
{
	for (int r = 0; r < b->size; r++)
		t->stride = all[r].bytes > t->stride ? all[r].bytes : t->stride;
	if (!t->stride)
		return 0;
	t->addresses = calloc((size_t)b->size, t->stride);
	if (!t->addresses)
		return no_memory(t, b);
	if (t->stride > sizeof all->address)
		return gather_long(t, b);
	for (int r = 0; r < b->size; r++)
		memcpy(t->addresses + (size_t)r * t->stride, all[r].address, t->stride);
	return 0;
}

int transport_open(const struct transport_row *row, const struct transport_params *params,
		   const corale_bootstrap *b, struct transport **out)
{
	struct transport *t = NULL;
	struct short_address mine = { 0 };
	int ret = row->open(row, params, &t);
	if (!ret) {
		t->row = row;
		t->rank = params->rank;
		t->size = params->size;
		mine.bytes = t->address_bytes;
		if (mine.bytes && mine.bytes <= sizeof mine.address)
			memcpy(mine.address, t->address, mine.bytes);
	}
	struct short_address *all =
	    bootstrap_agree_gather(b, &ret, "start its transport", &mine, sizeof mine);
	if (all)
		ret = gather_addresses(t, b, all);
	free(all);
	if (!ret && t->ops->connect)
		ret = t->ops->connect(t);
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
