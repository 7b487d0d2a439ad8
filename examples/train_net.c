/* SPDX-License-Identifier: BSD-3-Clause */
/* The network: layers of equal width, trained by the stochastic gradient method with momentum, on one rank or many. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"
#include "train_data.h"

/* Where layer l's parameters, or their gradients, begin. */
static size_t layer_at(const struct net *net, int l)
{
	return (size_t)(net->options->layers - 1 - l) * net->layer_count;
}

/* Gradients go through Corale, so they lie in memory that peers can map. */
static float *alloc_gradients(struct net *net)
{
	void *memory = NULL;
	size_t bytes = net->count * sizeof(float);
	if (!net->comm || net->options->plain)
		return net->compute->ops->alloc(net->compute, bytes);
	return corale_mem_alloc(net->comm, bytes, &memory) ? NULL : memory; /* the library has said why */
}

static void free_gradients(struct net *net)
{
	if (!net->comm || net->options->plain)
		net->compute->ops->free(net->compute, net->gradients);
	else if (net->gradients)
		corale_mem_free(net->comm, net->gradients);
}

static int alloc_all(struct net *net)
{
	const struct train_options *o = net->options;
	const struct compute_ops *ops = net->compute->ops;
	size_t bytes = (size_t)net->rows * o->width * sizeof(float);
	float **const samples[] = { &net->target, &net->delta[0], &net->delta[1] };
	int lacking = 0;
	net->gradients = alloc_gradients(net);
	net->parameters = ops->alloc(net->compute, net->count * sizeof(float));
	net->velocity = ops->alloc(net->compute, net->count * sizeof(float));
	net->losses = ops->alloc(net->compute, (size_t)o->steps * sizeof(float));
	net->in = calloc((size_t)o->layers + 1, sizeof(*net->in));
	lacking = !net->gradients || !net->parameters || !net->velocity || !net->losses || !net->in;
	for (int l = 0; !lacking && l <= o->layers; l++)
		lacking = !(net->in[l] = ops->alloc(net->compute, bytes));
	for (int i = 0; !lacking && i < 3; i++)
		lacking = !(*samples[i] = ops->alloc(net->compute, bytes));
	return lacking ? CORALE_ENOMEM : 0;
}

int net_open(struct net *net, const struct train_options *options, struct compute *compute, corale_comm *comm)
{
	size_t width = (size_t)options->width;
	memset(net, 0, sizeof(*net));
	net->options = options;
	net->compute = compute;
	net->comm = comm;
	net->rank = comm ? corale_comm_rank(comm) : 0;
	net->ranks = comm ? corale_comm_size(comm) : 1;
	net->rows = options->batch / net->ranks;
	net->layer_count = width * width + width;
	net->count = net->layer_count * options->layers;
	net->bucket = options->bucket_bytes / sizeof(float);
	return alloc_all(net);
}

void net_close(struct net *net)
{
	const struct compute_ops *ops = net->compute->ops;
	float *const own[] = { net->parameters, net->velocity, net->losses,
			       net->target,     net->delta[0], net->delta[1] };
	ops->finish(net->compute);
	for (int l = 0; net->in && l <= net->options->layers; l++)
		ops->free(net->compute, net->in[l]);
	for (int i = 0; i < 6; i++)
		ops->free(net->compute, own[i]);
	free_gradients(net);
	free(net->in);
	memset(net, 0, sizeof(*net));
}

/* Queues the averages of all full buckets within the first ready gradients; of the last one, too, once all are. */
static int send_buckets(struct net *net, size_t ready)
{
	const struct compute_ops *ops = net->compute->ops;
	int handed = 0, ret = 0;
	while (net->comm && !ret && net->sent < ready) {
		size_t left = ready - net->sent, count = left < net->bucket ? left : net->bucket;
		float *bucket = net->gradients + net->sent;
		if (count < net->bucket && ready < net->count)
			break;
		if (!handed++)
			ops->hand_over(net->compute);
		ret = corale_all_reduce(bucket, bucket, count, CORALE_FLOAT32, CORALE_AVG, net->comm,
					net->compute->stream);
		net->sent += count;
	}
	return ret;
}

int net_send_all(struct net *net)
{
	net->sent = 0;
	return send_buckets(net, net->count);
}

static void forward(struct net *net)
{
	const struct train_options *o = net->options;
	for (int l = 0; l < o->layers; l++)
		net->compute->ops->forward(net->compute, net->in[l], net->parameters + layer_at(net, l),
					   net->in[l + 1], net->rows, o->width, l == o->layers - 1);
}

/* A layer's own gradient first: its bucket is under way while the layer below waits for its turn. */
int net_backward(struct net *net, int step, enum sending sending)
{
	const struct train_options *o = net->options;
	const struct compute_ops *ops = net->compute->ops;
	float *delta = net->delta[0], *below = net->delta[1];
	int ret = 0;
	net->sent = 0;
	ops->loss(net->compute, net->in[o->layers], net->target, delta, net->losses + step, net->rows,
		  o->width);
	for (int l = o->layers - 1; l >= 0 && !ret; l--) {
		size_t at = layer_at(net, l);
		float *done = delta;
		ops->layer_gradient(net->compute, net->in[l], delta, net->gradients + at, net->rows,
				    o->width);
		if (sending == SEND_ALONG)
			ret = send_buckets(net, at + net->layer_count);
		if (l == 0)
			break; /* nobody asks for the samples' own gradient */
		ops->input_gradient(net->compute, delta, net->parameters + at, net->in[l], below, net->rows,
				    o->width);
		delta = below;
		below = done;
	}
	return ret || sending != SEND_AFTERWARDS ? ret : net_send_all(net);
}

static int train_step(struct net *net, int step)
{
	const struct train_options *o = net->options;
	const struct compute_ops *ops = net->compute->ops;
	size_t first = (size_t)step * o->batch + (size_t)net->rank * net->rows;
	ops->samples(net->compute, net->in[0], net->target, first, net->rows, o->width);
	forward(net);
	int ret = net_backward(net, step, o->no_overlap ? SEND_AFTERWARDS : SEND_ALONG);
	ops->take_back(net->compute);
	if (!ret)
		ops->update(net->compute, net->parameters, net->velocity, net->gradients, net->count,
			    o->rate / (float)o->width, o->momentum);
	return ret;
}

/* Weights small enough for tanh; biases are random, too. */
static void set_first_parameters(struct net *net)
{
	net->compute->ops->uniform(net->compute, net->parameters, net->count, TRAIN_PARAMETERS_SEED,
				   sqrtf(3.0f / (float)net->options->width));
}

/* Rank 0's parameters, wherever the others may have begun. */
static int share_parameters(struct net *net)
{
	if (net->rank == 0)
		set_first_parameters(net);
	if (!net->comm)
		return 0;
	net->compute->ops->hand_over(net->compute);
	int ret = corale_broadcast(net->parameters, net->parameters, net->count, CORALE_FLOAT32, 0, net->comm,
				   net->compute->stream);
	net->compute->ops->take_back(net->compute);
	return ret;
}

int net_train(struct net *net, float *losses)
{
	size_t bytes = (size_t)net->options->steps * sizeof(*losses);
	int ret = share_parameters(net);
	for (int step = 0; step < net->options->steps && !ret; step++)
		ret = train_step(net, step);
	if (!ret)
		ret = net_finish(net);
	if (!ret)
		net->compute->ops->copy(net->compute, losses, net->losses, bytes);
	return ret || !net->comm
		   ? ret
		   : net_all_reduce(net, losses, net->options->steps, CORALE_FLOAT32, CORALE_AVG);
}

void net_parameters(struct net *net, float *parameters)
{
	net->compute->ops->copy(net->compute, parameters, net->parameters, net->count * sizeof(*parameters));
}

void net_first_parameters(struct net *net, float *parameters)
{
	set_first_parameters(net);
	net_parameters(net, parameters);
}

int net_finish(struct net *net)
{
	int ret = net->compute->ops->finish(net->compute);
	return ret || !net->comm ? ret : corale_comm_async_error(net->comm);
}

int net_all_reduce(struct net *net, void *host, size_t count, corale_type type, corale_op op)
{
	const struct compute_ops *ops = net->compute->ops;
	size_t bytes = count * corale_type_bytes(type);
	void *memory = ops->alloc(net->compute, bytes);
	if (!memory)
		return CORALE_ENOMEM;
	ops->copy(net->compute, memory, host, bytes);
	int ret = corale_all_reduce(memory, memory, count, type, op, net->comm, net->compute->stream);
	if (!ret)
		ret = net_finish(net);
	if (!ret)
		ops->copy(net->compute, host, memory, bytes);
	ops->free(net->compute, memory);
	return ret;
}
