#define _GNU_SOURCE
#include "ucx_find.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH = 1024 };

static const char ucp[] = "libucp.so.0";

/* The file that a loaded libucp is from. */
static void name_of(void *library, char *where, size_t bytes)
{
	struct link_map *map = NULL;
	const int known = !dlinfo(library, RTLD_DI_LINKMAP, &map) && map && map->l_name[0];
	snprintf(where, bytes, "%s", known ? map->l_name : ucp);
}

/* By name or path. Its symbols are for the module alone, which names it as one that it needs. */
static int open_one(const char *name, int more, char *where, size_t bytes)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | more);
	if (!library) {
		snprintf(where, bytes, "%s", dlerror());
		return -1;
	}
	name_of(library, where, bytes);
	return 0;
}

/* Libraries of one folder, which the loader does not search: those that libucp needs come first. */
static int open_folder(const char *folder, char *where, size_t bytes)
{
	static const char *const needed[] = { "libucm.so.0", "libucs.so.0", "libuct.so.0" };
	char path[PATH];
	struct stat status;
	snprintf(path, sizeof path, "%s/%s", folder, ucp);
	if (stat(path, &status)) {
		snprintf(where, bytes, "no file %s", path);
		return -1;
	}
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, needed[i]);
		dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); /* libucp's error says what is missing */
	}
	snprintf(path, sizeof path, "%s/%s", folder, ucp);
	return open_one(path, 0, where, bytes);
}

static int open_wanted(const char *wanted, char *where, size_t bytes)
{
	char folder[PATH], why[PATH] = "";
	struct stat status;
	snprintf(folder, sizeof folder, "%s", wanted);
	char *end = strrchr(folder, '/');
	if (end && !stat(wanted, &status) && !S_ISDIR(status.st_mode))
		*end = '\0';
	if (!open_folder(folder, why, sizeof why)) {
		snprintf(where, bytes, "%s", why);
		return 0;
	}
	snprintf(where, bytes,
		 "CORALE_UCX_LIBRARY=%s: %s; expected the path of a libucp.so.0, or of its folder", wanted,
		 why);
	return -1;
}

/* Of the environment that HPC-X's module sets, and where images have it. */
static int open_hpcx(const char *root, char *where, size_t bytes)
{
	char folder[PATH];
	snprintf(folder, sizeof folder, "%s/lib", root);
	return open_folder(folder, where, bytes);
}

/* The folder of Python's packages that a loaded library is from. */
struct packages {
	char folder[PATH];
};

static int look_at_library(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	static const char *const names[] = { "/site-packages/", "/dist-packages/" };
	struct packages *p = arg;
	(void)bytes;
	for (int i = 0; i < 2; i++) {
		const char *at = strstr(info->dlpi_name, names[i]);
		struct stat status;
		if (!at)
			continue;
		const int length = (int)(at - info->dlpi_name + (ptrdiff_t)strlen(names[i]));
		if ((size_t)snprintf(p->folder, sizeof p->folder, "%.*slibucx/lib", length, info->dlpi_name) <
			sizeof p->folder &&
		    !stat(p->folder, &status))
			return 1;
	}
	p->folder[0] = '\0';
	return 0;
}

static int open_package(char *where, size_t bytes)
{
	struct packages p = { "" };
	dl_iterate_phdr(look_at_library, &p);
	return p.folder[0] ? open_folder(p.folder, where, bytes) : -1;
}

/* 0: UCX is loaded. */
static int load(const char *wanted, char *where, size_t bytes)
{
	const char *hpcx = secure_getenv("HPCX_UCX_DIR");
	char why[PATH];
	if (wanted[0])
		return open_wanted(wanted, where, bytes);
	if ((hpcx && !open_hpcx(hpcx, where, bytes)) || !open_package(where, bytes) ||
	    !open_one(ucp, 0, where, bytes))
		return 0;
	snprintf(why, sizeof why, "%s", where);
	if (!open_hpcx("/opt/hpcx/ucx", where, bytes))
		return 0;
	snprintf(
	    where, bytes,
	    "no UCX was found (%s); install it (Debian, Ubuntu: apt install libucx0; Python: pip install "
	    "libucx-cu12 or libucx-cu13, 1.13 or later), load HPC-X's module, or set CORALE_UCX_LIBRARY "
	    "to the path of libucp.so.0",
	    why);
	return -1;
}

/*
 * UCX handles SIGSEGV and others from the moment that it is loaded, to print stacks. This gives the program's handlers back, where the user has not asked for
 * UCX's. Exported by UCX, in no header of it.
 */
static void give_signals_back(void)
{
	void *ucs = dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD);
	void (*disable)(void) = ucs ? (void (*)(void))dlsym(ucs, "ucs_debug_disable_signals") : NULL;
	if (disable && !secure_getenv("UCX_HANDLE_ERRORS"))
		disable();
}

int ucx_find(const char *wanted, char *where, size_t bytes)
{
	if (!open_one(ucp, RTLD_NOLOAD, where, bytes))
		return 0;
	const int ret = load(wanted, where, bytes);
	if (!ret)
		give_signals_back();
	return ret;
}
