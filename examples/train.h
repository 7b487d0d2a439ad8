/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A data-parallel training example in three parts: what computes (struct compute: the host, or a GPU), the network
 * (struct net) with its gradients sent in buckets while the backward pass goes on, and the program around them.
 *
 * Matrices are float32 by rows of `width` elements: samples are rows; a layer's weights are width rows, one for each
 * input, followed by the biases.
 */
#ifndef TRAIN_H
#define TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "corale.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What computes ------------------------------------------------------------------------------------- */

/* One rank's. Work is queued and done in order; an error is said on stderr once, kept, and returned by finish. */
struct compute {
	const struct compute_ops *ops;
	void *stream; /* for the communication, beside the computing: what Corale's calls are given */
};

struct compute_ops {
	const char *name;
	int device; /* CORALE_DEVICE_* */
	int layers, width, batch; /* defaults */
	size_t bucket_bytes;
	int multiple; /* of which rows and width must be */
	int has_bfloat16;

	/* bfloat16: what is multiplied is rounded to it, sums stay float32. NULL on failure, after a line on stderr. */
	struct compute *(*open)(int rank, int local_rank, int bfloat16);
	void (*close)(struct compute *compute);
	/* Equal for two ranks of a node only if they share a GPU. NULL: ranks share no device. */
	uint64_t (*device_number)(struct compute *compute);
	/* Memory where this device computes, zeroed; NULL on failure, after a line on stderr. */
	void *(*alloc)(struct compute *compute, size_t bytes);
	void (*free)(struct compute *compute, void *memory);
	/* Waits for all queued work, then copies; to and from are such memory or the host's. Blocks. */
	void (*copy)(struct compute *compute, void *to, const void *from, size_t bytes);

	/* Random numbers in [-scale, scale), and a batch's samples from number first on (train_data.h). */
	void (*uniform)(struct compute *compute, float *out, size_t count, uint32_t seed, float scale);
	void (*samples)(struct compute *compute, float *in, float *target, size_t first, int rows, int width);
	/* out = tanh(in x weights + biases), without tanh in the last layer. */
	void (*forward)(struct compute *compute, const float *in, const float *layer, float *out, int rows,
			int width, int is_last);
	/* *loss: the mean over all elements of (out - target)^2. delta: the gradient of half the mean over rows of
	 * their sums. */
	void (*loss)(struct compute *compute, const float *out, const float *target, float *delta,
		     float *loss, int rows, int width);
	/* The gradient of a layer's weights and biases from its input and the gradient of what it gave before tanh. */
	void (*layer_gradient)(struct compute *compute, const float *in, const float *delta, float *gradient,
			       int rows, int width);
	/* The same before tanh of the layer below, whose output is in. */
	void (*input_gradient)(struct compute *compute, const float *delta, const float *layer,
			       const float *in, float *below, int rows, int width);
	/* velocity = momentum velocity + gradient; parameters -= rate velocity. */
	void (*update)(struct compute *compute, float *parameters, float *velocity, const float *gradient,
		       size_t count, float rate, float momentum);

	/* What is queued on the stream from now on waits for the computing queued so far. */
	void (*hand_over)(struct compute *compute);
	/* Computing queued from now on waits for what the stream has been given so far. */
	void (*take_back)(struct compute *compute);
	/* Waits until computing and stream are idle. Returns 0, or the first error since open. */
	int (*finish)(struct compute *compute);
};

extern const struct compute_ops compute_host;
/* NULL if this build has no CUDA. */
const struct compute_ops *compute_cuda(void);

/* ---- The network --------------------------------------------------------------------------------------- */

struct train_options {
	const struct compute_ops *ops;
	int layers, width, batch, steps, repeats; /* batch: samples of a step, those of all ranks together */
	size_t bucket_bytes;
	float rate, momentum;
	int bfloat16, no_overlap, plain, check;
	int cta_policy; /* CORALE_CTA_POLICY_*; on the host CORALE_CTA_POLICY_DEFAULT */
};

/* Gradients lie in the order in which the backward pass makes them, the last layer's first, and so do parameters: a
 * bucket is a piece of that memory, filled without a copy. */
struct net {
	const struct train_options *options;
	struct compute *compute;
	corale_comm *comm; /* NULL: one rank by itself */
	int rank, ranks, rows; /* rows: this rank's samples of a step */
	int sharing; /* ranks on one GPU, of the GPU that has most */
	size_t layer_count, count; /* parameters of one layer, of all */
	size_t bucket, sent; /* elements: of a bucket, given to Corale in this backward pass */
	float *parameters, *velocity, *gradients;
	float **in; /* in[l]: what layer l sees; in[layers]: the result */
	float *target, *delta[2], *losses; /* losses: one a step */
};

enum sending { SEND_NOTHING, SEND_AFTERWARDS, SEND_ALONG };

/* Functions return 0, or a CORALE_E* code after a line on stderr; the program then ends all ranks, since the others
 * would wait for this one. Collective over comm. */
int net_open(struct net *net, const struct train_options *options, struct compute *compute,
	     corale_comm *comm);
void net_close(struct net *net);
/* Trains from the start; losses gets the mean loss of all ranks in each step (host memory). */
int net_train(struct net *net, float *losses);
/* The loss of the last forward pass and all gradients, averaged over ranks as sending says. Queued. */
int net_backward(struct net *net, int step, enum sending sending);
/* Averages all gradients over ranks, bucket by bucket. Queued. */
int net_send_all(struct net *net);
/* What the parameters are before the first step, and now (host memory). */
void net_first_parameters(struct net *net, float *parameters);
void net_parameters(struct net *net, float *parameters);
/* Blocks until all is done; the first error of the compute or of the communicator. */
int net_finish(struct net *net);
/* All ranks' element by element, in place (host memory). Blocks. */
int net_all_reduce(struct net *net, void *host, size_t count, corale_type type, corale_op op);

/* ---- The program's parts ------------------------------------------------------------------------------- */

/* 0, 1 after --help, or -1 after a line on stderr (both if talks). */
int train_parse(int argc, char **argv, int ranks, int talks, struct train_options *options);
/* "auto", "efficient", "zero"; "default" for CORALE_CTA_POLICY_DEFAULT. */
const char *train_policy_name(int cta_policy);
/* Closes net; rank 0 then trains once more by itself. 0 if losses and parameters are equal within rounding and
 * parameters have the same bits on all ranks, 1 if not, or an error. */
int train_check(struct net *net, const float *losses);
/* Measures a trained network's backward pass with and without communication; rank 0 prints. */
int train_times(struct net *net);

#ifdef __cplusplus
}
#endif
#endif
