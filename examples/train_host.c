/* SPDX-License-Identifier: BSD-3-Clause */
/* The host computes: one thread, at once. Its communication stream is Corale's own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"
#include "train_data.h"

struct host {
	struct compute base;
	int rank, status;
};

static void host_close(struct compute *compute)
{
	corale_stream_destroy(compute->stream);
	free(compute);
}

static struct compute *host_open(int rank, int local_rank, int bfloat16)
{
	corale_stream *stream;
	(void)local_rank, (void)bfloat16;
	if (corale_stream_create(&stream))
		return NULL; /* the library has said why */
	struct host *host = calloc(1, sizeof(*host));
	if (!host) {
		fprintf(stderr, "train: rank %d: no memory\n", rank);
		corale_stream_destroy(stream);
		return NULL;
	}
	host->base.ops = &compute_host;
	host->base.stream = stream;
	host->rank = rank;
	return &host->base;
}

static void *host_alloc(struct compute *compute, size_t bytes)
{
	void *memory = calloc(bytes ? bytes : 1, 1);
	if (!memory)
		fprintf(stderr, "train: rank %d: no memory for %zu bytes; try a smaller network\n",
			((struct host *)compute)->rank, bytes);
	return memory;
}

static void host_free(struct compute *compute, void *memory)
{
	(void)compute;
	free(memory);
}

static void host_take_back(struct compute *compute)
{
	struct host *host = (struct host *)compute;
	int ret = corale_stream_synchronize(compute->stream);
	host->status = host->status ? host->status : ret;
}

static void host_hand_over(struct compute *compute)
{
	(void)compute; /* all computing is done when its call returns */
}

static int host_finish(struct compute *compute)
{
	host_take_back(compute);
	return ((struct host *)compute)->status;
}

static void host_copy(struct compute *compute, void *to, const void *from, size_t bytes)
{
	host_take_back(compute);
	memcpy(to, from, bytes);
}

static void host_uniform(struct compute *compute, float *out, size_t count, uint32_t seed, float scale)
{
	(void)compute;
	for (size_t i = 0; i < count; i++)
		out[i] = scale * train_number(seed, i);
}

static void host_samples(struct compute *compute, float *in, float *target, size_t first, int rows, int width)
{
	(void)compute;
	for (int row = 0; row < rows; row++) {
		for (int i = 0; i < width; i++) {
			*in++ = train_input(first + row, i);
			*target++ = train_target(first + row, i);
		}
	}
}

/* out[0 .. width) += the sum over k < 4 of scale[k * stride] * from[k][0 .. width) */
static void add_four(float *out, const float *scale, size_t stride, const float *from, size_t width)
{
	float a = scale[0], b = scale[stride], c = scale[2 * stride], d = scale[3 * stride];
#pragma omp simd
	for (size_t i = 0; i < width; i++)
		out[i] +=
		    a * from[i] + b * from[width + i] + c * from[2 * width + i] + d * from[3 * width + i];
}

static void add_one(float *out, float scale, const float *from, size_t width)
{
#pragma omp simd
	for (size_t i = 0; i < width; i++)
		out[i] += scale * from[i];
}

enum { BLOCK = 64 }; /* rows of a matrix that are used again and again before the next ones are */

/* out[m][.] += the sum over k < depth of left(m, k) * right[k][.], where left(m, k) = left[m * by_m + k * by_k]. */
static void multiply(float *out, const float *left, size_t by_m, size_t by_k, const float *right, int rows,
		     int depth, size_t width)
{
	for (int first = 0; first < depth; first += BLOCK) {
		int last = first + BLOCK < depth ? first + BLOCK : depth;
		for (int m = 0; m < rows; m++) {
			const float *scale = left + m * by_m;
			int k = first;
			for (; k + 4 <= last; k += 4)
				add_four(out + m * width, scale + k * by_k, by_k, right + k * width, width);
			for (; k < last; k++)
				add_one(out + m * width, scale[k * by_k], right + k * width, width);
		}
	}
}

static void host_forward(struct compute *compute, const float *in, const float *layer, float *out, int rows,
			 int width, int is_last)
{
	size_t w = (size_t)width;
	(void)compute;
	for (int row = 0; row < rows; row++)
		memcpy(out + row * w, layer + w * w, w * sizeof(*out));
	multiply(out, in, w, 1, layer, rows, width, w);
	for (size_t i = 0; !is_last && i < rows * w; i++)
		out[i] = tanhf(out[i]);
}

static void host_loss(struct compute *compute, const float *out, const float *target, float *delta,
		      float *loss, int rows, int width)
{
	size_t count = (size_t)rows * width;
	double sum = 0;
	(void)compute;
	for (size_t i = 0; i < count; i++) {
		float error = out[i] - target[i];
		sum += (double)error * error;
		delta[i] = error / (float)rows;
	}
	*loss = (float)(sum / (double)count);
}

static void host_layer_gradient(struct compute *compute, const float *in, const float *delta, float *gradient,
				int rows, int width)
{
	size_t w = (size_t)width;
	(void)compute;
	memset(gradient, 0, (w * w + w) * sizeof(*gradient));
	multiply(gradient, in, 1, w, delta, width, rows, w);
	for (int row = 0; row < rows; row++)
		add_one(gradient + w * w, 1, delta + row * w, w);
}

static float dot(const float *a, const float *b, size_t width)
{
	float sum = 0;
#pragma omp simd reduction(+ : sum)
	for (size_t i = 0; i < width; i++)
		sum += a[i] * b[i];
	return sum;
}

static void host_input_gradient(struct compute *compute, const float *delta, const float *layer,
				const float *in, float *below, int rows, int width)
{
	size_t w = (size_t)width;
	(void)compute;
	for (int first = 0; first < width; first += BLOCK) {
		int last = first + BLOCK < width ? first + BLOCK : width;
		for (int row = 0; row < rows; row++) {
			for (int i = first; i < last; i++) {
				float y = in[row * w + i];
				below[row * w + i] = dot(delta + row * w, layer + i * w, w) * (1 - y * y);
			}
		}
	}
}

static void host_update(struct compute *compute, float *parameters, float *velocity, const float *gradient,
			size_t count, float rate, float momentum)
{
	(void)compute;
#pragma omp simd
	for (size_t i = 0; i < count; i++) {
		velocity[i] = momentum * velocity[i] + gradient[i];
		parameters[i] -= rate * velocity[i];
	}
}

const struct compute_ops compute_host = {
	.name = "host",
	.device = CORALE_DEVICE_HOST,
	.layers = 6,
	.width = 512,
	.batch = 256,
	.bucket_bytes = 1 << 20,
	.multiple = 1,
	.open = host_open,
	.close = host_close,
	.alloc = host_alloc,
	.free = host_free,
	.copy = host_copy,
	.uniform = host_uniform,
	.samples = host_samples,
	.forward = host_forward,
	.loss = host_loss,
	.layer_gradient = host_layer_gradient,
	.input_gradient = host_input_gradient,
	.update = host_update,
	.hand_over = host_hand_over,
	.take_back = host_take_back,
	.finish = host_finish,
};
