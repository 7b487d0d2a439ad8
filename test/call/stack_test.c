/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks whose calls come from threads with small stacks: creation, calls of every kind, and the end. No frame of the library is above 8 KB. */
#include <pthread.h>

#include "test/helpers/unit.h"
#include "test/helpers/forked.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* their frames are larger */
enum { STACK_BYTES = 1 << 20 };
#else
enum { STACK_BYTES = 48 << 10 };
#endif
enum { RANKS = 3, COUNT = 200000 };

static void call_all(struct forked *r, corale_comm *comm, void *in, void *out)
{
	static const corale_type types[] = { CORALE_FLOAT32, CORALE_FLOAT16, CORALE_FLOAT64, CORALE_INT8,
					     CORALE_FLOAT8_E4M3 };
	static const size_t counts[] = { 1, 1003, COUNT };
	for (size_t i = 0; i < 15; i++) {
		const size_t count = counts[i / 5];
		const corale_type type = types[i % 5];
		corale_op premul = CORALE_SUM;
		int ret = corale_op_create_premul_sum(in, type, comm, &premul);
		ret |= corale_all_reduce(in, out, count, type, CORALE_SUM, comm, NULL);
		ret |= corale_all_reduce(in, out, count, type, CORALE_AVG, comm, NULL);
		ret |= corale_all_reduce(in, out, count, type, premul, comm, NULL);
		ret |= corale_all_gather(in, out, count, type, comm, NULL);
		ret |= corale_all_to_all(in, out, count / RANKS, type, comm, NULL);
		corale_group_begin();
		ret |= corale_send(in, count, type, (r->rank + 1) % RANKS, comm, NULL);
		ret |= corale_recv(out, count, type, (r->rank + 2) % RANKS, comm, NULL);
		ret |= corale_group_end();
		ret |= corale_op_destroy(premul, comm);
		if (ret)
			forked_fault(r, "%s: %s", corale_type_name(type), corale_comm_last_error(comm));
	}
}

static void *use(void *arg)
{
	struct forked *r = arg;
	void *in = calloc(COUNT, 8), *out = calloc(RANKS * COUNT, 8);
	corale_comm *comm = forked_create(r), *child = NULL;
	if (comm && in && out) {
		call_all(r, comm, in, out);
		if (corale_comm_split(comm, 0, r->rank, &child))
			forked_fault(r, "comm_split: %s", corale_comm_last_error(comm));
		corale_comm_destroy(child);
	}
	corale_comm_destroy(comm);
	free(in);
	free(out);
	return NULL;
}

static int play(struct forked *r)
{
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	if (pthread_attr_setstacksize(&attributes, STACK_BYTES) ||
	    pthread_create(&thread, &attributes, use, r))
		return 1;
	return pthread_join(thread, NULL);
}

static void one_node(void **state)
{
	assert_int_equal(forked_run(RANKS, FORKED_NOBODY, play, NULL), 0);
	setenv("CORALE_REFERENCE", "yes", 1);
	assert_int_equal(forked_run(RANKS, FORKED_NOBODY, play, NULL), 0);
	setenv("CORALE_REFERENCE", "auto", 1);
}

static void over_nodes(void **state)
{
	setenv("CORALE_NODE_SIZE", "1", 1);
	assert_int_equal(forked_run(RANKS, FORKED_NOBODY, play, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_node),
		cmocka_unit_test(over_nodes),
	};
	const size_t all = sizeof tests / sizeof *tests, n = forked_has_ucx() ? all : all - 1;
	printf("# %zu of %zu cases%s\n", n, all, n < all ? ": this build has no UCX" : "");
	setenv("CORALE_TIMEOUT", "20", 1);
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
