/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training: every rank has the whole network and its share of each step's samples; gradients are
 * averaged over the ranks in buckets, each sent as soon as the backward pass has filled it.
 *
 *   mpirun -n RANKS train [options]      train --help has them
 */
#include <stdio.h>
#include <stdlib.h>

#include <corale_mpi.h>

#include "train.h"

static void print_head(const struct net *net)
{
	const struct train_options *o = net->options;
	size_t buckets = (net->count + net->bucket - 1) / net->bucket;
	printf("# %d ranks, %s, products of %s: %d layers of %d, batch %d (%d a rank), %.1f MB of gradients "
	       "in %zu "
	       "buckets, %s\n",
	       net->ranks, o->ops->name, o->bfloat16 ? "bfloat16" : "float32", o->layers, o->width, o->batch,
	       net->rows, (double)net->count * sizeof(float) / 1e6, buckets,
	       o->no_overlap ? "sent after the backward pass" : "sent during the backward pass");
	if (o->ops->device == CORALE_DEVICE_CUDA)
		printf("# blocks of the communication: policy %s\n", train_policy_name(o->cta_policy));
}

/* About ten of them, the first and the last included. */
static void print_losses(const float *losses, int steps)
{
	int every = steps > 10 ? steps / 10 : 1;
	for (int step = 0; step < steps; step++)
		if (step % every == 0 || step == steps - 1)
			printf("step %6d loss %.6e\n", step, losses[step]);
}

static int train(struct net *net, float *losses)
{
	double begin = MPI_Wtime();
	int ret = net_train(net, losses);
	if (ret)
		return ret;
	if (net->rank == 0) {
		print_losses(losses, net->options->steps);
		printf("# %d steps in %.3f s\n", net->options->steps, MPI_Wtime() - begin);
		fflush(stdout);
	}
	return net->options->repeats ? train_times(net) : 0;
}

/* 0, 1 if the check failed, or an error. */
static int run(const struct train_options *options, struct compute *compute, corale_comm *comm, int sharing)
{
	struct net net;
	float *losses = malloc((size_t)options->steps * sizeof(*losses));
	int ret = losses ? net_open(&net, options, compute, comm) : CORALE_ENOMEM;
	if (ret)
		return ret;
	net.sharing = sharing;
	if (net.rank == 0)
		print_head(&net);
	ret = train(&net, losses);
	if (!ret && options->check)
		ret = train_check(&net, losses);
	else if (!ret)
		net_close(&net);
	free(losses);
	return ret;
}

/* Ranks that share a GPU, of the GPU that has most on any node; 0: there are none; or an error. Collective. */
static int count_sharing(struct compute *compute, MPI_Comm node)
{
	int ranks, mine = 0, most;
	uint64_t number = compute->ops->device_number ? compute->ops->device_number(compute) : 0;
	MPI_Comm_size(node, &ranks);
	uint64_t *all = calloc((size_t)ranks, sizeof(*all));
	if (!all)
		return CORALE_ENOMEM;
	MPI_Allgather(&number, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, node);
	for (int r = 0; r < ranks && compute->ops->device_number; r++)
		mine += all[r] == number;
	MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	free(all);
	return most;
}

/* The GPU of a rank is chosen before its communicator is made. */
static int run_on(const struct train_options *options, int rank)
{
	MPI_Comm node;
	int local_rank;
	corale_config config;
	corale_comm *comm;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
	MPI_Comm_rank(node, &local_rank);
	struct compute *compute = options->ops->open(rank, local_rank, options->bfloat16);
	if (!compute)
		return CORALE_EDEVICE;
	const int sharing = count_sharing(compute, node);
	MPI_Comm_free(&node);
	if (sharing < 0)
		return sharing;
	corale_config_init(&config);
	config.device = options->ops->device;
	/* Beside a backward pass the calls' kernels must leave it the GPU: by default they would take most of it, and
	 * nothing would be hidden. */
	config.cta_policy = options->cta_policy;
	int ret = corale_comm_create_mpi(MPI_COMM_WORLD, &config, &comm);
	if (ret)
		return ret;
	ret = run(options, compute, comm, sharing);
	if (ret < 0)
		return ret;
	corale_comm_destroy(comm);
	compute->ops->close(compute);
	return ret;
}

int main(int argc, char **argv)
{
	struct train_options options;
	int level, rank, ranks;
	/* Buckets travel by themselves only where MPI, should it be the transport, allows threads. */
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int parsed = train_parse(argc, argv, ranks, rank == 0, &options);
	int ret = parsed ? 0 : run_on(&options, rank);
	if (ret < 0) {
		fprintf(stderr, "train: rank %d: failed: %s\n", rank, corale_strerror(ret));
		fflush(stdout);
		MPI_Abort(MPI_COMM_WORLD, 1); /* others may wait for this rank */
	}
	MPI_Finalize();
	return parsed < 0 ? 2 : ret;
}
