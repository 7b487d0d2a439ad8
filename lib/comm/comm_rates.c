/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rates of messages between nodes: given, measured or built in. Measured by the process's first communicator over nodes, some 7 ms; the pages of a link's slots are
 * made before its clock runs. All ranks take the medians (net_rates.h); what was agreed the process keeps. Ranks that share cores take the built-in ones.
 */
#include "comm_create.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/link.h"
#include "plan/machine/net_rates.h"

enum { MOST_PAIRS = 8, PATIENCE_S = 20 };

/* ---- Measuring ---- */

/*
 * The first ranks of two nodes that are half of all nodes apart measure together, unless both know rates; -1: this rank does not. So nodes of one host, which
 * share memory, measure with those of others.
 */
static int partner(const struct comm *comm, const struct hello *hellos)
{
	const struct plan_map *map = &comm->topo->map;
	const char *transport = comm->engine.transport->row->name;
	const int half = map->nodes / 2, node = map->node_of[comm->rank],
		  other = node < half ? node + half : node - half;
	if (map->local_of[comm->rank] || node >= 2 * half || node % half >= MOST_PAIRS)
		return -1;
	const int peer = map->member[map->node_first[other]];
	return hello_find(&hellos[comm->rank], transport)->rates.valid &&
		       hello_find(&hellos[peer], transport)->rates.valid
		   ? -1
		   : peer;
}

/* At most half of the creation's deadline: the ranks that wait meanwhile hear why before their own wait ends. */
static double patience_s(const struct comm *comm)
{
	const double limit = comm_wait_seconds(comm);
	return limit > 0 && limit < 2 * PATIENCE_S ? limit / 2 : PATIENCE_S;
}

static int refuse_untimed(const struct comm *comm, int peer, int code)
{
	if (code != CORALE_ETIMEDOUT)
		return log_error(code, comm->rank,
				 "messages to and from rank %d (host %s) could not be timed: %s", peer,
				 comm->peers[peer].host, corale_strerror(code));
	return log_error(
	    code, comm->rank,
	    "over %s no message to rank %d (host %s) was answered within %g s: is there a firewall between "
	    "the hosts, or do their network devices not reach each other (CORALE_NET_DEVICES chooses "
	    "them)? Where the hosts are only busy, CORALE_NET_RATES=built-in does without timing",
	    comm->engine.transport->row->name, peer, comm->peers[peer].host, patience_s(comm));
}

static int measure(struct comm *comm, int peer, struct net_sample *mine)
{
	struct link_costs costs;
	struct link *link = host_link(&comm->engine, peer, 0, 0);
	if (!link)
		return host_no_link(&comm->engine, peer);
	const int ret = link_measure(comm->engine.transport, link, comm->rank < peer,
				     (int64_t)(patience_s(comm) * 1e9), &costs);
	if (ret)
		return refuse_untimed(comm, peer, ret);
	/* one way less both ends' parts, but a tenth of it at least */
	const double rest = costs.one_way_ns - costs.post_ns - costs.recv_ns, least = costs.one_way_ns / 10;
	*mine = (struct net_sample){ .valid = 1,
				     .latency_ns = rest > least ? rest : least,
				     .send_ns = costs.pace_ns > costs.post_ns ? costs.pace_ns : costs.post_ns,
				     .recv_ns = costs.recv_ns,
				     .byte_ns = costs.byte_ns };
	log_line(LOG_TRACE, comm->rank,
		 "a message to rank %d takes %.2f us, of that %.2f to post and %.2f to receive; %.2f between "
		 "two of a burst; %.3f ns a byte",
		 peer, costs.one_way_ns / 1e3, costs.post_ns / 1e3, costs.recv_ns / 1e3, costs.pace_ns / 1e3,
		 costs.byte_ns);
	return 0;
}

/* The agreed rates, as a sample that gives them again. */
static struct net_sample sample_of(const struct topo *topo)
{
	const struct topo_link *rail = &topo->rail;
	return (struct net_sample){ .valid = 1,
				    .latency_ns = rail->latency_ns,
				    .send_ns = rail->send_ns,
				    .recv_ns = rail->recv_ns,
				    .byte_ns = 1 / rail->bytes_per_ns + 2 / topo->net_bytes_per_ns };
}

static void log_rates(const struct comm *comm, const char *origin)
{
	char text[200];
	topo_print_rails(comm->topo, text, sizeof text);
	log_line(LOG_INFO, comm->rank, "between nodes, %s: %s", origin, text);
}

static void apply(struct comm *comm, const struct net_sample *samples, int n, const char *origin)
{
	if (!net_rates_apply(samples, n, comm->topo))
		return;
	const struct net_sample agreed = sample_of(comm->topo);
	known_rates_keep(comm->engine.transport->row->name, &agreed);
	log_rates(comm, origin);
}

/* What all have said in their hellos; NULL: some rank knows no rates. */
static struct net_sample *known_by_all(const struct comm *comm, const struct hello *hellos)
{
	struct net_sample *all = calloc((size_t)comm->size, sizeof *all);
	int known = all != NULL;
	for (int r = 0; known && r < comm->size; r++) {
		all[r] = hello_find(&hellos[r], comm->engine.transport->row->name)->rates;
		known = all[r].valid;
	}
	if (known)
		return all;
	free(all);
	return NULL;
}

/* Ranks that know other rates take the medians of them. */
static int measured(struct comm *comm, const struct hello *hellos)
{
	struct net_sample mine = hello_find(&hellos[comm->rank], comm->engine.transport->row->name)->rates,
			  *all = known_by_all(comm, hellos);
	const char *origin = all ? "as measured before" : "measured";
	const int peer = all ? -1 : partner(comm, hellos);
	int ret = peer >= 0 ? measure(comm, peer, &mine) : 0;
	all = all ? all : comm_gather(comm, &ret, "time messages between nodes", &mine, sizeof mine);
	if (all)
		apply(comm, all, comm->size, origin);
	free(all);
	return ret;
}

/* ---- Given ---- */

static int is_auto(const struct comm *comm)
{
	return !strcmp(comm->settings.net_rates, "auto");
}

static int has_tuned_network(const struct comm *comm)
{
	return is_auto(comm) && tuning_has_section(&comm->tuning, TUNING_NETWORK);
}

void comm_use_tuning(struct comm *comm)
{
	struct rates_links links = *rates_of_hosts();
	if (!comm->tuning.given)
		return;
	tuning_apply_links(&comm->tuning, TUNING_HOST, &links);
	if (is_auto(comm))
		tuning_apply_links(&comm->tuning, TUNING_NETWORK, &links);
	topo_set_hosts(comm->topo, &links);
	log_line(LOG_INFO, comm->rank, "rates of CORALE_TUNING=%s, hash %016llx", comm->settings.tuning,
		 (unsigned long long)tuning_hash(&comm->tuning));
}

int comm_check_rates(const struct comm *comm)
{
	const char *text = comm->settings.net_rates;
	char error[256];
	if (is_auto(comm) || !strcmp(text, "built-in") || !topo_parse_rails(text, NULL, error, sizeof error))
		return 0;
	return log_error(CORALE_ESETTING, comm->rank, "CORALE_NET_RATES: %s", error);
}

int comm_find_rates(struct comm *comm, const struct hello *hellos)
{
	const char *text = comm->settings.net_rates;
	char error[256];
	if (comm->topo->map.nodes == 1)
		return 0;
	if (has_tuned_network(comm)) {
		log_rates(comm, "as CORALE_TUNING says");
		return 0;
	}
	if (is_auto(comm) && comm->topo->cores_per_rank_x16 >= 16)
		return measured(comm, hellos);
	if (!is_auto(comm) && strcmp(text, "built-in")) {
		topo_parse_rails(text, comm->topo, error, sizeof error);
		log_rates(comm, "as CORALE_NET_RATES says");
	} else {
		log_rates(comm, "built-in rates");
	}
	return 0;
}
