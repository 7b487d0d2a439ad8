/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "corale.h"
#include "info_net.h"
#include "net/ucx/ucx_context.h"

/* UCX writes its own lines to stdout or stderr, whose levels it has read when it was loaded. Returns what restore needs. */
static void silence(int kept[2])
{
	const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		kept[i] = fcntl(1 + i, F_DUPFD_CLOEXEC, 3);
		if (kept[i] >= 0 && nowhere >= 0)
			dup2(nowhere, 1 + i);
	}
	if (nowhere >= 0)
		close(nowhere);
}

static void restore(const int kept[2])
{
	for (int i = 0; i < 2; i++) {
		if (kept[i] < 0)
			continue;
		dup2(kept[i], 1 + i);
		close(kept[i]);
	}
}

/* Corale's error line becomes part of the report. */
static int open_quietly(const char *device, int gpu_slots, ucp_context_h *out)
{
	struct ucx_context_params params = { .rank = -1, .devices = device, .gpu_slots = gpu_slots };
	int kept[2];
	if (settings_get(&params.settings))
		return CORALE_ESETTING;
	silence(kept);
	const int ret = ucx_context_open(&params, out);
	restore(kept);
	return ret;
}

void info_ucx_look(struct info_ucx *out)
{
	struct ucx_gpudirect gpudirect;
	ucp_context_h context;
	*out = (struct info_ucx){ .is_there = 1 };
	if (open_quietly("all", 0, &context)) { /* also adapters that no file of the kernel shows */
		snprintf(out->facts, sizeof(out->facts), "not known: %s", log_last_error());
		return;
	}
	ucx_gpudirect_look(context, &gpudirect);
	ucp_cleanup(context);
	out->can_register = gpudirect.mode != UCX_GPUDIRECT_NONE;
	ucx_gpudirect_print(&gpudirect, out->facts, sizeof(out->facts));
	snprintf(out->advice, sizeof(out->advice), "%s", ucx_gpudirect_advice(&gpudirect));
}

int info_ucx_open(const char *device, int gpu_slots, char *why_not, size_t bytes)
{
	ucp_context_h context;
	const int ret = open_quietly(device, gpu_slots, &context);
	if (ret)
		snprintf(why_not, bytes, "%s", log_last_error());
	else
		ucp_cleanup(context);
	return ret;
}
