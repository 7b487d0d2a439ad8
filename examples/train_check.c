/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether training on many ranks gives what one rank gives by itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "train.h"

/*
 * What rounding may do. A gradient's elements are summed in another order on many ranks than on one, and training
 * carries the difference on from step to step. Losses: relative. Parameters: the length of their difference over
 * that of the way they have come. Products of bfloat16 turn a last bit of float32 into a last bit of bfloat16.
 */
struct limits {
	double losses, parameters;
};

static const struct limits of_float32 = { 3e-6, 3e-5 }, of_bfloat16 = { 3e-4, 5e-3 };

static uint64_t fingerprint(const float *parameters, size_t count)
{
	const unsigned char *bytes = (const unsigned char *)parameters;
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
	for (size_t i = 0; i < count * sizeof(*parameters); i++)
		hash = (hash ^ bytes[i]) * 0x100000001b3u;
	return hash;
}

/* 1 if all ranks have the same bits, 0 if not, or an error. */
static int same_bits(struct net *net, const float *parameters)
{
	uint64_t least = fingerprint(parameters, net->count), most = least;
	int ret = net_all_reduce(net, &least, 1, CORALE_UINT64, CORALE_MIN);
	if (!ret)
		ret = net_all_reduce(net, &most, 1, CORALE_UINT64, CORALE_MAX);
	return ret ? ret : least == most;
}

static double loss_difference(const float *losses, const float *alone, int steps)
{
	double largest = 0;
	for (int i = 0; i < steps; i++) {
		double difference = fabs((double)losses[i] - alone[i]) / alone[i];
		largest = difference <= largest ? largest : difference; /* NaN comes through */
	}
	return largest;
}

static double parameter_difference(const float *parameters, const float *alone, const float *first,
				   size_t count)
{
	double apart = 0, way = 0;
	for (size_t i = 0; i < count; i++) {
		double a = (double)parameters[i] - alone[i], w = (double)alone[i] - first[i];
		apart += a * a;
		way += w * w;
	}
	return sqrt(apart / way);
}

/* Trains once more, by itself; work has room for the steps' losses and twice all parameters. */
static int compare(struct net *alone, const float *losses, const float *parameters, float *work)
{
	const struct train_options *o = alone->options;
	const struct limits *limits = o->bfloat16 ? &of_bfloat16 : &of_float32;
	float *other = work + o->steps, *first = other + alone->count;
	int ret = net_train(alone, work);
	if (ret)
		return ret;
	net_parameters(alone, other);
	net_first_parameters(alone, first);
	double by_loss = loss_difference(losses, work, o->steps);
	double by_parameter = parameter_difference(parameters, other, first, alone->count);
	int good = by_loss <= limits->losses && by_parameter <= limits->parameters;
	printf("# check: one rank by itself: losses differ by %.1e (limit %.0e), parameters by %.1e (limit "
	       "%.0e): %s\n",
	       by_loss, limits->losses, by_parameter, limits->parameters, good ? "OK" : "FAILED");
	return !good;
}

static int check_alone(const struct train_options *options, struct compute *compute, const float *losses,
		       const float *parameters)
{
	struct net alone;
	int ret = net_open(&alone, options, compute, NULL);
	float *work = ret ? NULL : malloc((2 * alone.count + options->steps) * sizeof(*work));
	if (!ret)
		ret = work ? compare(&alone, losses, parameters, work) : CORALE_ENOMEM;
	free(work);
	net_close(&alone);
	return ret;
}

int train_check(struct net *net, const float *losses)
{
	const struct train_options *options = net->options;
	struct compute *compute = net->compute;
	int rank = net->rank;
	float *parameters = malloc(net->count * sizeof(*parameters));
	if (!parameters)
		return CORALE_ENOMEM;
	net_parameters(net, parameters);
	int same = same_bits(net, parameters);
	net_close(net);
	if (rank == 0 && same >= 0)
		printf("# check: parameters have %s bits on all ranks: %s\n", same ? "the same" : "DIFFERENT",
		       same ? "OK" : "FAILED");
	int ret = same < 0 ? same : !same;
	if (rank == 0 && same >= 0) {
		int alone = check_alone(options, compute, losses, parameters);
		ret = alone ? alone : ret;
	}
	free(parameters);
	return ret;
}
