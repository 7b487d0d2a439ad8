/* SPDX-License-Identifier: BSD-3-Clause */
/* From measured samples to the rates that all ranks plan by. */
#include "test/helpers/unit.h"
#include "plan/machine/net_rates.h"
#include "plan/choose/planner.h"
#include "examples/plans/planned.h"

enum { RANKS = 16 };

static struct topo *new_topo(void)
{
	uint64_t nodes[RANKS];
	struct topo *topo;
	for (int r = 0; r < RANKS; r++)
		nodes[r] = (uint64_t)r;
	assert_int_equal(topo_create(RANKS, nodes, &topo), 0);
	return topo;
}

static double noisy(double value, double noise)
{
	return value * (1 + noise * (2.0 * rand() / RAND_MAX - 1));
}

/* As eight pairs measure it: sender, receiver and way take these ns. */
static void measure(struct net_sample *samples, double send, double recv, double way, double noise)
{
	for (int r = 0; r < RANKS; r++) {
		samples[r] = (struct net_sample){ .valid = r % 3 != 2,
						  .send_ns = noisy(send, noise),
						  .recv_ns = noisy(recv, noise),
						  .latency_ns = noisy(way, noise),
						  .byte_ns = noisy(1.0 / 10 + 2.0 / 5, noise) };
	}
}

static void print_measured(double send, double recv, double way, double noise, char text[200])
{
	struct net_sample samples[RANKS];
	struct topo *topo = new_topo();
	measure(samples, send, recv, way, noise);
	assert_int_equal(net_rates_apply(samples, RANKS, topo), 11);
	topo_print_rails(topo, text, 200);
	topo_destroy(topo);
}

/* No two runs measure the same, and all plan by the same rates. */
UNIT_TEST(test_steady)
{
	for (int run = 0; run < 200; run++) {
		char text[200];
		print_measured(6500, 2600, 800, 0.3, text); /* near the built-in ones: sockets */
		assert_string_equal(
		    text, "rail_us:0.8 rail_send_us:6.5 rail_recv_us:2.6 rail_gap_us:0 rail:10 rail_core:5");
		print_measured(6500 / 11.39, 2600 / 11.39, 800 / 11.39, 0.15,
			       text); /* in the middle of a step */
		assert_string_equal(text, "rail_us:0.0702 rail_send_us:0.571 rail_recv_us:0.228 "
					  "rail_gap_us:0 rail:10 rail_core:5");
	}
}

static void plan_barrier(double factor, struct plan *plan)
{
	struct net_sample samples[RANKS];
	struct topo *topo = new_topo();
	char error[200];
	measure(samples, 6500 / factor, 2600 / factor, 20000, 0.05);
	assert_int_equal(net_rates_apply(samples, RANKS, topo), 11);
	struct planner planner = { .topo = topo, .slot_bytes = 1 << 18, .slots = 8, .max_channels = 1 };
	struct plan_key key = planner_key(CORALE_BARRIER, 0, CORALE_UINT8, CORALE_SUM);
	assert_int_equal(planner_plan(&planner, &key, NULL, plan, error, sizeof(error)), 0);
	topo_destroy(topo);
}

/* What is measured decides: messages that cost their ends a thirtieth are sent to all at once. */
UNIT_TEST(test_choices_differ)
{
	struct plan dear, cheap;
	plan_barrier(1, &dear);
	plan_barrier(30, &cheap);
	assert_int_not_equal(dear.algo, cheap.algo);
}

/* The rates that were agreed on give themselves again, so that later communicators of the process have the same. */
UNIT_TEST(test_known)
{
	struct topo *topo = new_topo(), *again = new_topo();
	struct net_sample samples[RANKS], one;
	char a[200], b[200];
	measure(samples, 300, 900, 5000, 0);
	net_rates_apply(samples, RANKS, topo);
	const struct topo_link *rail = &topo->rail;
	one = (struct net_sample){ .valid = 1,
				   .latency_ns = rail->latency_ns,
				   .send_ns = rail->send_ns,
				   .recv_ns = rail->recv_ns,
				   .byte_ns = 1 / rail->bytes_per_ns + 2 / topo->net_bytes_per_ns };
	assert_int_equal(net_rates_apply(&one, 1, again), 1);
	topo_print_rails(topo, a, sizeof(a));
	topo_print_rails(again, b, sizeof(b));
	assert_string_equal(a, b);
	topo_destroy(topo);
	topo_destroy(again);
}

UNIT_TEST(test_nothing_measured)
{
	struct topo *topo = new_topo();
	struct net_sample none[RANKS] = { { 0 } };
	char before[200], after[200];
	topo_print_rails(topo, before, sizeof(before));
	assert_int_equal(net_rates_apply(none, RANKS, topo), 0);
	topo_print_rails(topo, after, sizeof(after));
	assert_string_equal(before, after);
	topo_destroy(topo);
}
