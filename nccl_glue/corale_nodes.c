/*
 * Whether ranks on several nodes are served here: opens the module of UCX as libnccl.so.2 does. For corale-run --check.
 *
 *   corale-nodes [FOLDER]    FOLDER: of a UCX that the program would find in its Python's packages
 *
 * Prints UCX's version and file, status 0; or what is missing, status 1.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/module.h"
#include "net/ucx_find.h"

int main(int argc, char **argv)
{
	char text[1024];
	const int named = getenv("CORALE_UCX_LIBRARY") != NULL;
	if (argc > 1 && !named && ucx_find(argv[1], text, sizeof text)) {
		puts(text);
		return 1;
	}
	if (!module_find(MODULE_UCX, text, sizeof text)) {
		puts(text);
		return 1;
	}
	if (ucx_find("", text, sizeof text)) /* the one that is loaded now */
		return 1;
	void *ucp = dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
	const char *(*version)(void) =
	    ucp ? (const char *(*)(void))dlsym(ucp, "ucp_get_version_string") : NULL;
	printf("UCX %s, %s\n", version ? version() : "of an unknown version", text);
	return 0;
}
