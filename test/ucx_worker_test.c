/* How UCX is opened: by a thread that has no CUDA context, so that a UCX with CUDA changes nothing of the program's; and where its lines go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>

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

static void opens_without_context(void **state)
{
	const struct settings *settings;
	char text[256];
	(void)state;
	has_context = 1;
	assert_int_equal(settings_get(&settings), 0);
	assert_int_equal(transport_ucx.devices(settings, text, sizeof(text)), 0);
	assert_true(opened > 0);
	assert_int_equal(with_context, 0);
}

static char lines[2048];

static void keep_line(enum log_level level, int rank, const char *text)
{
	(void)rank;
	if (level == LOG_WARN)
		snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", text);
}

/* Of a device that is not there UCX says so by a line. */
static void takes_lines_of_ucx(void **state)
{
	const struct settings *settings;
	char text[256];
	FILE *file = tmpfile();
	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(opens_without_context),
					    cmocka_unit_test(takes_lines_of_ucx) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
