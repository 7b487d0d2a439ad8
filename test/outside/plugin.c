/* SPDX-License-Identifier: BSD-3-Clause */
/* A plugin that is unloaded: the library is opened by name, used by two ranks as threads, and closed; its threads must not be left
 * without code, and the process ends as usual. Usage: plugin LIBRARY */
#define _GNU_SOURCE
#include <corale.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static struct {
	int (*inproc_create)(int, corale_inproc **);
	void (*inproc_destroy)(corale_inproc *);
	int (*comm_create)(corale_inproc *, int, const corale_config *, corale_comm **);
	int (*barrier)(corale_comm *, void *);
	void (*comm_destroy)(corale_comm *);
} corale;

static corale_inproc *group;

static void *rank(void *second)
{
	corale_comm *comm;
	if (corale.comm_create(group, second ? 1 : 0, NULL, &comm))
		return "creation failed";
	void *ret = corale.barrier(comm, NULL) ? "the barrier failed" : NULL;
	corale.comm_destroy(comm);
	return ret;
}

static int find(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);
	memcpy(function, &symbol, sizeof symbol);
	return symbol != NULL;
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL, *other = NULL, *mine;
	pthread_t thread;
	if (!library || !find(library, "corale_inproc_create", &corale.inproc_create) ||
	    !find(library, "corale_inproc_destroy", &corale.inproc_destroy) ||
	    !find(library, "corale_comm_create_inproc", &corale.comm_create) ||
	    !find(library, "corale_barrier", &corale.barrier) ||
	    !find(library, "corale_comm_destroy", &corale.comm_destroy)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	corale.inproc_create(2, &group);
	pthread_create(&thread, NULL, rank, &group);
	mine = rank(NULL);
	pthread_join(thread, &other);
	corale.inproc_destroy(group);
	dlclose(library);
	nanosleep(&(struct timespec){ 0, 200000000 }, NULL); /* several looks of the watch thread */
	if (mine || other)
		fprintf(stderr, "%s\n", (char *)(mine ? mine : other));
	return mine || other;
}
