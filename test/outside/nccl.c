/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of NCCL, built with Corale's header against the installed library: two ranks of one thread, in host memory. */
#include <stdio.h>

#include <nccl.h>

static int failures;

static void expect_success(const char *call, ncclResult_t result)
{
	if (result == ncclSuccess)
		return;
	fprintf(stderr, "%s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(NULL));
	failures++;
}

int main(void)
{
	ncclComm_t comms[2] = { NULL, NULL };
	int in[2] = { 3, 4 }, out[2] = { 0, 0 }, devices[2] = { 0, 0 };
	expect_success("ncclCommInitAll", ncclCommInitAll(comms, 2, devices));
	if (failures)
		return 1;
	expect_success("ncclGroupStart", ncclGroupStart());
	for (int i = 0; i < 2; i++)
		expect_success("ncclAllReduce",
			       ncclAllReduce(&in[i], &out[i], 1, ncclInt, ncclSum, comms[i], NULL));
	expect_success("ncclGroupEnd", ncclGroupEnd());
	for (int i = 0; i < 2; i++)
		expect_success("ncclCommDestroy", ncclCommDestroy(comms[i]));
	return failures || out[0] != 7 || out[1] != 7;
}
