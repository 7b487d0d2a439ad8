/* The rates of messages between nodes: given, measured or built in. */
#include "comm_create.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/link_measure.h"
#include "plan/machine/net_rates.h"

enum { MOST_PAIRS = 8, PATIENCE_S = 20 };

/* ---- What this process knows of a transport's links ---- */

static struct {
	pthread_mutex_t lock;
	struct {
		char transport[16];
		struct net_sample sample;
	} rows[4];
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };
enum { ROWS = sizeof known.rows / sizeof known.rows[0] };

static struct net_sample recall(const char *transport)
{
	struct net_sample sample = { 0 };
	pthread_mutex_lock(&known.lock);
	for (int i = 0; i < ROWS; i++)
		if (!strcmp(known.rows[i].transport, transport))
			sample = known.rows[i].sample;
	pthread_mutex_unlock(&known.lock);
	return sample;
}

static void remember(const char *transport, const struct net_sample *sample)
{
	int i = 0;
	pthread_mutex_lock(&known.lock);
	while (i < ROWS - 1 && *known.rows[i].transport && strcmp(known.rows[i].transport, transport))
		i++;
	snprintf(known.rows[i].transport, sizeof known.rows[i].transport, "%s", transport);
	known.rows[i].sample = *sample;
	pthread_mutex_unlock(&known.lock);
}

/* ---- Measuring ---- */

/* The first ranks of nodes 2 i and 2 i + 1 measure together; -1: this rank does not. */
static int partner(const struct comm *comm)
{
	const struct plan_map *map = &comm->topo->map;
	const int node = map->node_of[comm->rank], other = node ^ 1;
	if (map->local_of[comm->rank] || other >= map->nodes || node / 2 >= MOST_PAIRS)
		return -1;
	return map->member[map->node_first[other]];
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

static int measure(struct comm *comm, struct net_sample *mine)
{
	const int peer = partner(comm);
	struct link_costs costs;
	*mine = (struct net_sample){ 0 };
	if (peer < 0)
		return 0;
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

static int measured(struct comm *comm, const char *transport)
{
	struct net_sample mine = recall(transport);
	int ret = 0;
	struct net_sample *all = comm_gather(comm, &ret, "hold what the network takes", &mine, sizeof mine);
	int is_known = all != NULL;
	for (int r = 0; all && r < comm->size; r++)
		is_known &= all[r].valid;
	if (all && !is_known) {
		ret = comm_agree(comm, measure(comm, &mine), "time messages between nodes");
		ret = ret ? ret : bootstrap_gather(&comm->bootstrap, &mine, sizeof mine, all);
	}
	if (!ret && net_rates_apply(all, comm->size, comm->topo)) {
		mine = sample_of(comm->topo);
		remember(transport, &mine);
		log_rates(comm, is_known ? "as measured before" : "measured");
	}
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

int comm_find_rates(struct comm *comm)
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
		return measured(comm, comm->engine.transport->row->name);
	if (!is_auto(comm) && strcmp(text, "built-in")) {
		topo_parse_rails(text, comm->topo, error, sizeof error);
		log_rates(comm, "as CORALE_NET_RATES says");
	} else {
		log_rates(comm, "built-in rates");
	}
	return 0;
}
