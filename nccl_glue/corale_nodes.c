/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether ranks on several nodes are served here: opens the module of UCX as libnccl.so.2 does. For corale-run --check.
 *
 *   corale-nodes [FOLDER]    FOLDER: of a UCX that the program would find in its Python's packages
 *
 * Prints UCX's version and file, and why others before it were passed by, status 0; or what is missing, status 1.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/module.h"

int main(int argc, char **argv)
{
	char where[1024], text[1024];
	const char *wanted = getenv("CORALE_UCX_LIBRARY");
	if (ucx_find(wanted ? wanted : "", argc > 1 ? argv[1] : NULL, where, sizeof where)) {
		puts(where);
		return 1;
	}
	if (!module_find(MODULE_UCX, text, sizeof text)) {
		puts(text);
		return 1;
	}
	void *ucp = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
	const char *(*version)(void) =
	    ucp ? (const char *(*)(void))dlsym(ucp, "ucp_get_version_string") : NULL;
	printf("UCX %s, %s\n", version ? version() : "of an unknown version", where);
	return 0;
}
