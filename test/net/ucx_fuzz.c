/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random programs of messages for the receiving side of the UCX transport (ucx_script.h): those of a corpus, then changes of
 * them by a seeded generator. A child runs them; what it dies of is shown with the seed that repeats it.
 *
 *   ucx_fuzz [-s SEED] [-n INPUTS] [-t SECONDS] [FILE...]   without files: test/ucx_corpus
 *
 * With clang: -fsanitize=fuzzer and -DFUZZER leave main to libFuzzer.
 */
#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/helpers/clock.h"
#include "base/log.h"
#include "ucx_script.h"

enum { MOST_BYTES = 1024, MOST_SEEDS = 256, PATIENCE_S = 30 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	log_open(LOG_NONE, NULL);
	ucx_script_run(data, bytes);
	return 0;
}

#ifndef FUZZER

struct input {
	size_t bytes;
	unsigned char data[MOST_BYTES];
};

static struct input corpus[MOST_SEEDS];
static unsigned corpus_size;

/* What the child does now, for the parent. */
static struct state {
	_Atomic uint64_t seed, done;
	struct input input;
} * state;

static uint64_t next(uint64_t *random) /* splitmix64 */
{
	uint64_t z = *random += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static void read_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	if (!file || corpus_size == MOST_SEEDS) {
		fprintf(stderr, "ucx_fuzz: cannot read %s, or there are more than %d files\n", path,
			MOST_SEEDS);
		exit(2);
	}
	struct input *input = &corpus[corpus_size++];
	input->bytes = fread(input->data, 1, sizeof(input->data), file);
	fclose(file);
}

static void read_folder(const char *path)
{
	struct dirent **entries;
	char name[2048];
	int n = scandir(path, &entries, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			read_file(name);
		free(entries[i]);
	}
	if (n > 0)
		free(entries);
}

/* Moves, repeats, inserts or changes some bytes. */
static void change(struct input *input, uint64_t *random)
{
	size_t at = input->bytes ? next(random) % input->bytes : 0, n = 1 + next(random) % 12;
	const struct input *other = &corpus[next(random) % corpus_size];
	size_t room = sizeof(input->data) - input->bytes;

	switch (next(random) % 5) {
	case 0:
		if (input->bytes)
			input->data[at] = (unsigned char)next(random);
		break;
	case 1:
		if (input->bytes)
			input->data[at] ^= (unsigned char)(1u << next(random) % 8);
		break;
	case 2: /* takes bytes out */
		n = n < input->bytes - at ? n : input->bytes - at;
		memmove(input->data + at, input->data + at + n, input->bytes - at - n);
		input->bytes -= n;
		break;
	case 3: /* random bytes into the middle */
		n = n < room ? n : room;
		memmove(input->data + at + n, input->data + at, input->bytes - at);
		for (size_t i = 0; i < n; i++)
			input->data[at + i] = (unsigned char)next(random);
		input->bytes += n;
		break;
	default: /* another file behind it */
		n = other->bytes < room ? other->bytes : room;
		memcpy(input->data + input->bytes, other->data, n);
		input->bytes += n;
	}
}

static void make_input(struct input *input, uint64_t seed)
{
	uint64_t random = seed;
	*input = corpus[next(&random) % corpus_size];
	for (uint64_t n = 1 + next(&random) % 12; n; n--)
		change(input, &random);
}

static void run(uint64_t seed, uint64_t inputs, double seconds)
{
	double until = clock_s() + seconds;
	for (unsigned i = 0; i < corpus_size; i++) {
		state->input = corpus[i];
		alarm(PATIENCE_S);
		LLVMFuzzerTestOneInput(corpus[i].data, corpus[i].bytes);
	}
	for (uint64_t i = 0; seconds > 0 ? clock_s() < until : i < inputs; i++) {
		state->seed = seed + i;
		make_input(&state->input, seed + i);
		alarm(PATIENCE_S);
		LLVMFuzzerTestOneInput(state->input.data, state->input.bytes);
		state->done++;
	}
	alarm(0);
}

/* 1 if the child ended well. */
static int report(int status)
{
	int good = WIFEXITED(status) && !WEXITSTATUS(status);
	printf("1..1\n%s 1 - %llu changed inputs and %u of the corpus\n", good ? "ok" : "not ok",
	       (unsigned long long)state->done, corpus_size);
	if (good)
		return 1;
	printf("# ended by %s %d at seed %llu (repeat: -n 1 -s %llu); the input:",
	       WIFSIGNALED(status) ? "signal" : "status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), (unsigned long long)state->seed,
	       (unsigned long long)state->seed);
	for (size_t i = 0; i < state->input.bytes; i++)
		printf(" %02x", state->input.data[i]);
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1, inputs = 20000;
	double seconds = 0;
	int option, status;
	const char *top = getenv("top_srcdir");
	char folder[1024];

	while ((option = getopt(argc, argv, "s:n:t:")) != -1) {
		if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (option == 'n')
			inputs = strtoull(optarg, NULL, 0);
		else if (option == 't')
			seconds = strtod(optarg, NULL);
		else
			return 2;
	}
	snprintf(folder, sizeof(folder), "%s/test/ucx_corpus", top ? top : ".");
	for (int i = optind; i < argc; i++)
		read_file(argv[i]);
	if (optind == argc)
		read_folder(folder);
	if (!corpus_size) {
		fprintf(stderr, "ucx_fuzz: no files in %s: name some, or set top_srcdir\n", folder);
		return 2;
	}
	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state == MAP_FAILED)
		return 2;
	pid_t child = fork();
	if (!child) {
		run(seed, inputs, seconds);
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 2;
	return !report(status);
}

#endif
