/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_engine.h"

#include <pthread.h>
#include <string.h>

#include "corale.h"
#include "base/log.h"
#include "base/process.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static struct pool_task *tasks; /* waiting; never more than there are idle threads */
static int idle, waiting;

static void *work(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		while (!tasks)
			pthread_cond_wait(&came, &lock);
		struct pool_task *task = tasks;
		tasks = task->next;
		waiting--;
		idle--;
		pthread_mutex_unlock(&lock);
		task->run(task);
		pthread_mutex_lock(&lock);
		idle++;
	}
	return NULL;
}

static int add_thread(void)
{
	int ret = process_thread(NULL, work, NULL);
	if (ret)
		return log_error(CORALE_ESYSTEM, -1, "no thread for a channel: %s; lower CORALE_MAX_CHANNELS",
				 strerror(ret));
	idle++;
	return 0;
}

int pool_submit(struct pool_task *task)
{
	pthread_mutex_lock(&lock);
	int ret = waiting < idle ? 0 : add_thread();
	if (!ret) {
		task->next = tasks;
		tasks = task;
		waiting++;
		pthread_cond_signal(&came);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}
