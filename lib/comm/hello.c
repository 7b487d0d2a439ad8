/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "hello.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sort.h"
#include "base/status.h"
#include "host/window.h"
#include "net/exchange.h"
#include "transport_rows.h"

enum { HELLO_MAGIC = 0x43524c31, MAX_ROWS = 64, VALUE_BYTES = 96, MAX_CORES = 1 << 20 };

/* 0: not known. */
static uint64_t machine_hash(void)
{
	char boot[64] = "";
	FILE *file = descriptor_read("/proc/sys/kernel/random/boot_id");
	if (file) {
		if (!fgets(boot, sizeof boot, file))
			boot[0] = 0;
		fclose(file);
	}
	return boot[0] ? hash_bytes(hash_start, boot, strlen(boot)) : 0;
}

/* One machine, one network namespace: what memory descriptors and abstract sockets reach. The name tells fake
 * hosts apart that share a kernel, and containers. */
static uint64_t host_hash(const char *name, uint64_t machine)
{
	uint64_t hash = hash_bytes(hash_start, name, strlen(name));
	struct stat net;
	if (!stat("/proc/self/ns/net", &net))
		hash = hash_bytes(hash, &net.st_ino, sizeof net.st_ino);
	return hash_bytes(hash, &machine, sizeof machine);
}

static void fill_cores(struct hello *hello)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	hello->cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
	hello->mask = (uint32_t)hash_bytes(hash_start, &set, sizeof set);
}

static uint64_t settings_hash(const struct settings *settings)
{
	uint64_t hash = hash_start;
	char value[VALUE_BYTES * 4];
	for (int i = 0; i < settings_count(); i++) {
		if (!settings_row(i)->shared)
			continue;
		settings_value(settings, i, value, sizeof value);
		hash = hash_bytes(hash, value, strlen(value) + 1);
	}
	return hash;
}

void hello_init(struct hello *hello, const corale_bootstrap *bootstrap, const struct settings *settings,
		const char *host_id, int status)
{
	memset(hello, 0, sizeof *hello);
	hello->magic = HELLO_MAGIC;
	hello->version = CORALE_VERSION;
	hello->status = status;
	hello->rank = bootstrap->rank;
	hello->size = bootstrap->size;
	fill_cores(hello);
	hello->pid = (uint64_t)getpid();
	hello->process = process_number();
	gethostname(hello->name, sizeof hello->name - 1);
	hello->machine = machine_hash();
	hello->pids = hello_pids(hello->machine);
	hello->node = hello->host = host_hash(host_id ? host_id : hello->name, hello->machine);
	if (getrandom(&hello->token, sizeof hello->token, 0) != sizeof hello->token)
		hello->token = hello->pid << 32 ^ (uint64_t)(uintptr_t)hello;
	if (!status)
		hello->settings = settings_hash(settings);
}

void hello_probe(struct hello *hello, const struct settings *settings, const struct transport_row *own)
{
	const struct transport_row *row;
	struct hello_transport *to = hello->transports;
	char why_not[512];
	for (int i = 0; (row = transport_row_at(i, own)); i++) {
		if (!transport_is_wanted(settings, row))
			continue;
		to->reach = row->probe(row, hello->gpu, why_not, sizeof why_not);
		if (!to->reach)
			continue;
		snprintf(to->name, sizeof to->name, "%s", row->name);
		to++->rates = known_rates_last(row->name);
	}
}

const struct hello_transport *hello_find(const struct hello *hello, const char *transport)
{
	for (int i = 0; i < TRANSPORT_ROWS; i++)
		if (hello->transports[i].reach &&
		    !strncmp(hello->transports[i].name, transport, TRANSPORT_NAME_BYTES))
			return &hello->transports[i];
	return NULL;
}

uint64_t hello_reach(const struct hello *hello, const char *transport)
{
	const struct hello_transport *found = hello_find(hello, transport);
	return found ? found->reach : 0;
}

int hello_exchange(const corale_bootstrap *bootstrap, const struct hello *mine, struct hello **all)
{
	struct hello *gathered = calloc((size_t)bootstrap->size, sizeof *gathered);
	if (!gathered)
		return log_error(CORALE_ENOMEM, bootstrap->rank, "no memory for the facts of %d ranks",
				 bootstrap->size);
	const int ret = bootstrap_gather(bootstrap, mine, sizeof *mine, gathered);
	if (ret) {
		free(gathered);
		return ret;
	}
	for (int r = 0; r < bootstrap->size; r++)
		gathered[r].name[sizeof gathered[r].name - 1] = 0;
	*all = gathered;
	return 0;
}

/* Settings differ somewhere: gathers their texts and names the first difference. Collective. */
static int name_difference(const corale_bootstrap *b, const struct settings *settings)
{
	char(*mine)[VALUE_BYTES] = calloc(MAX_ROWS, VALUE_BYTES);
	char(*all)[MAX_ROWS][VALUE_BYTES] = calloc((size_t)b->size, sizeof *all);
	int ret = mine && all ? 0 : CORALE_ENOMEM;
	for (int i = 0; !ret && i < settings_count(); i++)
		if (settings_row(i)->shared)
			settings_value(settings, i, mine[i], VALUE_BYTES);
	if (!ret)
		ret = bootstrap_gather(b, mine, MAX_ROWS * VALUE_BYTES, all);
	for (int i = 0; !ret && i < settings_count(); i++) {
		all[0][i][VALUE_BYTES - 1] = 0;
		for (int r = 1; !ret && r < b->size; r++) {
			all[r][i][VALUE_BYTES - 1] = 0;
			if (strcmp(all[0][i], all[r][i]))
				ret = log_error(CORALE_ESETTING, b->rank,
						"%s differs: \"%s\" on rank 0, \"%s\" on rank %d; set it "
						"equally on all ranks (mpirun -x %s), also by corale_config",
						settings_row(i)->name, all[0][i], all[r][i], r,
						settings_row(i)->name);
		}
	}
	if (!ret)
		ret =
		    log_error(CORALE_ESETTING, b->rank,
			      "settings differ between ranks beyond their first %d characters", VALUE_BYTES);
	free(mine);
	free(all);
	return ret;
}

/* The error lines of all ranks have the same text: each can compare the hashes with what corale-info says of its file. */
static int refuse_tuning(const corale_bootstrap *b, const struct hello *all, int odd)
{
	return log_error(CORALE_ESETTING, b->rank,
			 "CORALE_TUNING differs: rates with hash %016llx on rank 0 (%s), %016llx on rank %d "
			 "(%s; 0: built-in rates); give all ranks the same file",
			 (unsigned long long)all[0].tuning, all[0].name, (unsigned long long)all[odd].tuning,
			 odd, all[odd].name);
}

int hello_compare(const corale_bootstrap *b, const struct hello *all, const struct settings *settings)
{
	int differ = 0;
	for (int r = 0; r < b->size; r++) {
		const struct hello *h = &all[r];
		if (h->magic != HELLO_MAGIC || h->version != all[0].version)
			return log_error(CORALE_ESETTING, b->rank,
					 "rank %d runs another version of Corale than rank 0 (%u, %u): start "
					 "all ranks with the same library",
					 r, h->version, all[0].version);
		if (h->rank != r || h->size != b->size)
			return log_error(CORALE_EINVAL, b->rank,
					 "the bootstrap is inconsistent: entry %d of %d came from a rank "
					 "that calls itself %d of %d",
					 r, b->size, h->rank, h->size);
		if (h->status)
			return h->status == all[b->rank].status && r == b->rank
				   ? h->status
				   : log_error(code_of_peer(h->status), b->rank,
					       "rank %d (%s) could not create the communicator: %s", r,
					       h->name, corale_strerror(h->status));
		if (h->cores < 1 || h->cores > MAX_CORES)
			return log_error(CORALE_EINVAL, b->rank,
					 "rank %d (%s) may use %d cores by what it says; expected 1 to %d", r,
					 h->name, h->cores, MAX_CORES);
		if (h->pid < 1 || h->pid > INT_MAX)
			return log_error(CORALE_EINVAL, b->rank,
					 "rank %d (%s) says that it is process %llu; expected 1 to %d", r,
					 h->name, (unsigned long long)h->pid, INT_MAX);
		if (h->gpu != all[0].gpu)
			return log_error(CORALE_ESETTING, b->rank,
					 "corale_config.device differs: %s on rank 0, %s on rank %d; give "
					 "all ranks the same",
					 all[0].gpu ? "CUDA" : "host", h->gpu ? "CUDA" : "host", r);
		if (h->tuning != all[0].tuning)
			return refuse_tuning(b, all, r);
		differ |= h->settings != all[0].settings;
	}
	return differ ? name_difference(b, settings) : 0;
}

static int by_mask(const void *x, const void *y)
{
	const struct hello *a = *(const struct hello *const *)x, *b = *(const struct hello *const *)y;
	const int ret = sort_differ(a->host, b->host);
	return ret ? ret : sort_differ(a->mask, b->mask);
}

/* 16ths of a core for each rank where cores are fewest, at least 1; 0 without memory. */
static int cores_per_rank(const struct hello *all, int size)
{
	const struct hello **sorted = calloc((size_t)size, sizeof *sorted);
	int least = 1 << 20;
	if (!sorted)
		return 0;
	for (int r = 0; r < size; r++)
		sorted[r] = &all[r];
	sort_items(sorted, (size_t)size, sizeof(*sorted), by_mask);
	for (int r = 0, ranks; r < size; r += ranks) {
		for (ranks = 1; r + ranks < size && !by_mask(&sorted[r], &sorted[r + ranks]); ranks++)
			;
		int share = 16 * sorted[r]->cores / ranks;
		least = share < least ? share : least;
	}
	free(sorted);
	return least > 1 ? least : 1;
}

int hello_topology(const struct hello *all, int size, const struct settings *settings, struct topo **out)
{
	uint64_t *node = calloc((size_t)size, sizeof *node);
	const int cores = cores_per_rank(all, size);
	if (!node || !cores) {
		free(node);
		return log_error(CORALE_ENOMEM, -1, "no memory for the map of %d ranks", size);
	}
	for (int r = 0; r < size; r++) {
		node[r] = all[r].node;
		if (settings->node_size > 0) { /* fake nodes: every node_size ranks of a real one */
			int before = 0;
			for (int q = 0; q < r; q++)
				before += all[q].node == all[r].node;
			node[r] ^=
			    hash_bytes(hash_start, &(int){ before / settings->node_size }, sizeof(int));
		}
	}
	int ret = topo_create(size, node, out);
	free(node);
	if (ret)
		return ret;
	(*out)->cores_per_rank_x16 = cores;
	if ((*out)->map.max_node_size <= WINDOW_RANKS)
		return 0;
	ret = log_error(CORALE_ENOTSUP, -1,
			"%d ranks on one host: at most %d in this version; start fewer ranks a host, or set "
			"CORALE_NODE_SIZE",
			(*out)->map.max_node_size, WINDOW_RANKS);
	topo_destroy(*out);
	*out = NULL;
	return ret;
}
