/* SPDX-License-Identifier: BSD-3-Clause */
/* How UCX is opened: by a thread that has no CUDA context, so that a UCX with CUDA changes nothing of the program's; where its lines go; and what is said
 * where no network interface has an address. */
#define _GNU_SOURCE
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "test/helpers/unit.h"
#include "base/log.h"
#include "base/settings.h"
#include "net/ucx/transport_ucx.h"

/* What a CUDA context is to a thread: current, or not. */
static _Thread_local int has_context;
static int opened, with_context;

ucs_status_t __real_ucp_init_version(unsigned major, unsigned minor, const ucp_params_t *params,
				     const ucp_config_t *config, ucp_context_h *out);
ucs_status_t __wrap_ucp_init_version(unsigned major, unsigned minor, const ucp_params_t *params,
				     const ucp_config_t *config, ucp_context_h *out);

/* The linker puts it before UCX's function. */
ucs_status_t __wrap_ucp_init_version(unsigned major, unsigned minor, const ucp_params_t *params,
				     const ucp_config_t *config, ucp_context_h *out)
{
	opened++;
	with_context += has_context;
	return __real_ucp_init_version(major, minor, params, config, out);
}

/* lo is up and has ::1 alone. 0: this process may not have such a network. */
static int leave_network(void)
{
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP },
		     none = { .ifr_name = "lo", .ifr_addr.sa_family = AF_INET };
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return 0;
	const int fd = socket(AF_INET, SOCK_DGRAM, 0);
	return fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &up) && !ioctl(fd, SIOCSIFADDR, &none) && !close(fd);
}

enum { SAID, NOT_SAID, NO_NETWORK };

static int ask_without_network(void)
{
	const struct settings *settings;
	char text[256] = "";
	if (!leave_network())
		return NO_NETWORK;
	setenv("UCX_TLS", "tcp", 1); /* or UCX takes what it has for messages to oneself */
	if (!settings_get(&settings) && transport_ucx.devices(settings, text, sizeof(text)) &&
	    strstr(log_last_error(), "no network interface has an address") &&
	    strstr(log_last_error(), "addresses: lo"))
		return SAID;
	fprintf(stderr, "# devices \"%s\", said: %s\n", text, log_last_error());
	return NOT_SAID;
}

/* By a child, before this process uses UCX. */
UNIT_TEST(says_that_there_is_no_network)
{
	int status = -1;
	const pid_t child = fork();
	if (!child)
		_exit(ask_without_network());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_NETWORK)
		fprintf(stderr, "# not tried: this system lets nobody make a network namespace\n");
	assert_int_not_equal(WEXITSTATUS(status), NOT_SAID);
}

UNIT_TEST(opens_without_context)
{
	const struct settings *settings;
	char text[256];
	has_context = 1;
	assert_int_equal(settings_get(&settings), 0);
	assert_int_equal(transport_ucx.devices(settings, text, sizeof(text)), 0);
	assert_true(opened > 0);
	assert_int_equal(with_context, 0);
}

static char lines[2048];

static void keep_line(enum log_level level, int rank, const char *text)
{
	if (level == LOG_WARN)
		snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", text);
}

/* Of a device that is not there UCX says so by a line. */
UNIT_TEST(takes_lines_of_ucx)
{
	const struct settings *settings;
	char text[256];
	FILE *file = tmpfile();
	assert_int_equal(settings_get(&settings), 0);
	struct settings of_nowhere = *settings;
	strcpy(of_nowhere.net_devices, "nowhere0");
	fflush(stdout);
	const int kept = dup(STDOUT_FILENO);
	assert_true(file && kept >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
	log_set_writer(keep_line);
	const int ret = transport_ucx.devices(&of_nowhere, text, sizeof(text));
	log_set_writer(NULL);
	fflush(stdout);
	dup2(kept, STDOUT_FILENO);
	close(kept);
	assert_int_equal(ret, 0);
	assert_non_null(strstr(lines, "UCX: "));
	assert_non_null(strstr(lines, "nowhere0"));
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	assert_int_equal(ftell(file), 0);
	fclose(file);
}
