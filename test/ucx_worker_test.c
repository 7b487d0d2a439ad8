/* How UCX is opened: by a thread that has no CUDA context, so that a UCX with CUDA changes nothing of the program's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ucp/api/ucp.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(opens_without_context) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
