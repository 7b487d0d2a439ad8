/* SPDX-License-Identifier: BSD-3-Clause */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

static const char help[] =
    "Usage: mpirun -n RANKS train [options]\n"
    "\n"
    "Trains a network of equal layers with its samples divided over the ranks. Gradients are averaged in "
    "buckets,\n"
    "each as soon as the backward pass has filled it, while the pass goes on. Prints the losses, which "
    "depend on the\n"
    "number of ranks by rounding only, and how much of the communication was hidden.\n"
    "\n"
    "  --device host|cuda     what computes (default host); cuda: a GPU for each rank of a node, in turn\n"
    "  --type float32|bfloat16  what is multiplied; sums and gradients are float32 (default float32; "
    "bfloat16: cuda)\n"
    "  --layers N             layers (default 6; cuda 8)\n"
    "  --width N              inputs and outputs of each layer (default 512; cuda 4096, multiples of 128 "
    "only)\n"
    "  --batch N              samples of a step, over all ranks (default 256; cuda 8192, multiples of 128 a "
    "rank)\n"
    "  --steps N              steps (default 20)\n"
    "  --rate X               the step's length; it is divided by the width (default 0.4)\n"
    "  --bucket-bytes SIZE    gradients averaged by one call; suffixes K, M, G (default 1M; cuda 25M)\n"
    "  --no-overlap           trains with all communication after the backward pass\n"
    "  --cta-policy auto|efficient|zero  how many blocks of a GPU the communication takes (cuda; default "
    "efficient:\n"
    "                         few, so that the backward pass goes on beside them; auto, which is faster by "
    "itself but\n"
    "                         stops it, with --no-overlap)\n"
    "  --plain                gradients in ordinary memory instead of corale_mem_alloc's\n"
    "  --repeats N            repetitions of each measured time; 0: no times (default 10)\n"
    "  --check                rank 0 then trains by itself; exit status 1 unless losses and parameters are "
    "the same\n"
    "                         within rounding, and parameters bit by bit on all ranks\n"
    "  --help                 this text\n"
    "  --version              the library's version\n";

enum {
	OPT_DEVICE = 256,
	OPT_TYPE,
	OPT_LAYERS,
	OPT_WIDTH,
	OPT_BATCH,
	OPT_STEPS,
	OPT_RATE,
	OPT_BUCKET,
	OPT_NO_OVERLAP,
	OPT_POLICY,
	OPT_PLAIN,
	OPT_REPEATS,
	OPT_CHECK,
	OPT_HELP,
	OPT_VERSION
};

static const struct option long_options[] = { { "device", required_argument, NULL, OPT_DEVICE },
					      { "type", required_argument, NULL, OPT_TYPE },
					      { "layers", required_argument, NULL, OPT_LAYERS },
					      { "width", required_argument, NULL, OPT_WIDTH },
					      { "batch", required_argument, NULL, OPT_BATCH },
					      { "steps", required_argument, NULL, OPT_STEPS },
					      { "rate", required_argument, NULL, OPT_RATE },
					      { "bucket-bytes", required_argument, NULL, OPT_BUCKET },
					      { "no-overlap", no_argument, NULL, OPT_NO_OVERLAP },
					      { "cta-policy", required_argument, NULL, OPT_POLICY },
					      { "plain", no_argument, NULL, OPT_PLAIN },
					      { "repeats", required_argument, NULL, OPT_REPEATS },
					      { "check", no_argument, NULL, OPT_CHECK },
					      { "help", no_argument, NULL, OPT_HELP },
					      { "version", no_argument, NULL, OPT_VERSION },
					      { NULL, 0, NULL, 0 } };

/* Each returns 0, or what is wrong. */
static const char *parse_count(const char *text, int least, int most, int *value)
{
	char *end;
	long number = strtol(text, &end, 10);
	if (end == text || *end || number < least || number > most)
		return least ? "expected a number from 1 on" : "expected a number from 0 on";
	*value = (int)number;
	return NULL;
}

static const char *parse_bytes(const char *text, size_t *value)
{
	static const char suffixes[] = "KMG";
	char *end;
	double bytes = strtod(text, &end);
	const char *suffix = *end ? strchr(suffixes, *end) : NULL;
	if (suffix)
		end++;
	for (; suffix && suffix >= suffixes; suffix--)
		bytes *= 1024;
	if (end == text || *end || !(bytes >= sizeof(float)) || bytes > 1e15)
		return "expected a size of at least 4 bytes, as 65536, 64K or 1M";
	*value = (size_t)bytes;
	return NULL;
}

static const char *parse_device(const char *text, struct train_options *o)
{
	o->ops = strcmp(text, "host") ? strcmp(text, "cuda") ? NULL : compute_cuda() : &compute_host;
	if (o->ops)
		return NULL;
	return strcmp(text, "cuda") ? "expected host or cuda"
				    : "this build has no CUDA: configure it with --with-cuda";
}

static const char *parse_type(const char *text, struct train_options *o)
{
	o->bfloat16 = strcmp(text, "bfloat16") == 0;
	return o->bfloat16 || strcmp(text, "float32") == 0 ? NULL : "expected float32 or bfloat16";
}

static const char *const policies[] = { "default", "auto", "efficient", "zero" };
_Static_assert(sizeof(policies) / sizeof(*policies) == CORALE_CTA_POLICY_ZERO + 1, "a name for each");

const char *train_policy_name(int cta_policy)
{
	return policies[cta_policy];
}

static const char *parse_policy(const char *text, struct train_options *o)
{
	for (int i = CORALE_CTA_POLICY_AUTO; i <= CORALE_CTA_POLICY_ZERO; i++)
		if (strcmp(text, policies[i]) == 0)
			o->cta_policy = i;
	return o->cta_policy ? NULL : "expected auto, efficient or zero";
}

static const char *parse_rate(const char *text, struct train_options *o)
{
	char *end;
	o->rate = strtof(text, &end);
	return end != text && !*end && o->rate > 0 && o->rate < 1e9f ? NULL : "expected a positive number";
}

static const char *parse_flag(int option, struct train_options *o)
{
	o->no_overlap |= option == OPT_NO_OVERLAP;
	o->plain |= option == OPT_PLAIN;
	o->check |= option == OPT_CHECK;
	return NULL;
}

static const char *parse_one(int option, const char *text, struct train_options *o)
{
	switch (option) {
	case OPT_DEVICE:
		return parse_device(text, o);
	case OPT_TYPE:
		return parse_type(text, o);
	case OPT_LAYERS:
		return parse_count(text, 1, 1 << 20, &o->layers);
	case OPT_WIDTH:
		return parse_count(text, 1, 1 << 20, &o->width);
	case OPT_BATCH:
		return parse_count(text, 1, 1 << 30, &o->batch);
	case OPT_STEPS:
		return parse_count(text, 1, 1 << 30, &o->steps);
	case OPT_RATE:
		return parse_rate(text, o);
	case OPT_BUCKET:
		return parse_bytes(text, &o->bucket_bytes);
	case OPT_POLICY:
		return parse_policy(text, o);
	case OPT_REPEATS:
		return parse_count(text, 0, 1 << 20, &o->repeats);
	default:
		return parse_flag(option, o);
	}
}

static void set_defaults(struct train_options *o)
{
	o->layers = o->layers ? o->layers : o->ops->layers;
	o->width = o->width ? o->width : o->ops->width;
	o->batch = o->batch ? o->batch : o->ops->batch;
	o->bucket_bytes = o->bucket_bytes ? o->bucket_bytes : o->ops->bucket_bytes;
	if (o->ops->device == CORALE_DEVICE_CUDA && !o->cta_policy)
		o->cta_policy = o->no_overlap ? CORALE_CTA_POLICY_AUTO : CORALE_CTA_POLICY_EFFICIENT;
}

static int check_all(const struct train_options *o, int ranks, int talks)
{
	int multiple = o->ops->multiple;
	if (o->bfloat16 && !o->ops->has_bfloat16) {
		if (talks)
			fprintf(stderr,
				"train: --type bfloat16: the %s multiplies float32 only; try --device cuda\n",
				o->ops->name);
		return -1;
	}
	if (o->cta_policy && o->ops->device != CORALE_DEVICE_CUDA) {
		if (talks)
			fprintf(stderr, "train: --cta-policy %s: the %s has no blocks; try --device cuda\n",
				policies[o->cta_policy], o->ops->name);
		return -1;
	}
	if (o->width % multiple == 0 && o->batch % (ranks * multiple) == 0)
		return 0;
	if (talks)
		fprintf(stderr,
			"train: --width %d --batch %d: %d ranks computing on %s need a width that is a "
			"multiple of "
			"%d and a batch that is a multiple of %d\n",
			o->width, o->batch, ranks, o->ops->name, multiple, ranks * multiple);
	return -1;
}

int train_parse(int argc, char **argv, int ranks, int talks, struct train_options *o)
{
	const char *wrong = NULL;
	int option;
	*o = (struct train_options){
		.ops = &compute_host, .steps = 20, .repeats = 10, .rate = 0.4f, .momentum = 0.9f
	};
	opterr = talks;
	while (!wrong && (option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == '?')
			return -1;
		if (option == OPT_HELP || option == OPT_VERSION) {
			const int version = corale_version();
			if (talks && option == OPT_HELP)
				fputs(help, stdout);
			else if (talks)
				printf("corale %d.%d.%d\n", version / 10000, version / 100 % 100,
				       version % 100);
			return 1;
		}
		wrong = parse_one(option, optarg, o);
		if (wrong && talks)
			fprintf(stderr, "train: %s: %s\n", optarg, wrong);
	}
	if (!wrong && optind < argc && talks)
		fprintf(stderr, "train: '%s' is not an option; see train --help\n", argv[optind]);
	if (wrong || optind < argc)
		return -1;
	set_defaults(o);
	return check_all(o, ranks, talks);
}
