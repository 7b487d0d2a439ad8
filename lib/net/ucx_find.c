/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "module.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where UCX may be, in order. */
enum place { HPCX, PYTHON, LOADER, OPT_HPCX, PLACES };
enum { PATH = 512, ADAPTERS = 64 };

static const char ucp[] = "libucp.so.0",
		  verbs[] = "ucx/libuct_ib.so.0"; /* in the same folder, where UCX was built with verbs */

/* By name or path; where has its file, or the error. Its symbols are for the module alone, which names it as one that it needs. */
static int open_one(const char *name, int more, char *where, size_t bytes)
{
	struct link_map *map = NULL;
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | more);
	const int known = library && !dlinfo(library, RTLD_DI_LINKMAP, &map) && map && map->l_name[0];
	snprintf(where, bytes, "%s", !library ? dlerror() : known ? map->l_name : ucp);
	return library ? 0 : -1;
}

static int has_file(const char *folder, const char *name)
{
	char path[2 * PATH];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return folder[0] && !access(path, R_OK);
}

/* Libraries of one folder, which the loader does not search: those that libucp needs come first. */
static int open_folder(const char *folder, char *where, size_t bytes)
{
	static const char *const needed[] = { "libucm.so.0", "libucs.so.0", "libuct.so.0" };
	char path[2 * PATH];
	if (!has_file(folder, ucp)) {
		snprintf(where, bytes, "no file %.400s/%s", folder, ucp);
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
	char folder[PATH], why[PATH];
	struct stat status;
	snprintf(folder, sizeof folder, "%s", wanted);
	char *end = strrchr(folder, '/');
	if (end && !stat(wanted, &status) && !S_ISDIR(status.st_mode))
		*end = '\0';
	if (!open_folder(folder, where, bytes))
		return 0;
	snprintf(why, sizeof why, "%s", where);
	snprintf(where, bytes,
		 "CORALE_UCX_LIBRARY=%s: %s; expected the path of a libucp.so.0, or of its folder", wanted,
		 why);
	return -1;
}

/* arg: the folder of UCX among Python's packages that a loaded library is from. */
static int look_at_library(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	static const char *const names[] = { "/site-packages/", "/dist-packages/" };
	char *folder = arg;
	(void)bytes;
	for (int i = 0; i < 2; i++) {
		const char *at = strstr(info->dlpi_name, names[i]);
		if (!at)
			continue;
		const int length = (int)(at - info->dlpi_name + (ptrdiff_t)strlen(names[i]));
		if (snprintf(folder, PATH, "%.*slibucx/lib", length, info->dlpi_name) < PATH &&
		    has_file(folder, ucp))
			return 1;
	}
	folder[0] = '\0';
	return 0;
}

/* The folder of the loader's UCX, which is not opened for that; none where only the loader's cache knows it. */
static void find_loaders(char folder[PATH])
{
	Dl_serinfo size, *all = NULL;
	void *self = dlopen(NULL, RTLD_NOW);
	if (!self || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) || !(all = malloc(size.dls_size)))
		return;
	*all = size;
	for (int i = dlinfo(self, RTLD_DI_SERINFO, all) ? 0 : (int)all->dls_cnt; i-- > 0;)
		if (has_file(all->dls_serpath[i].dls_name, ucp))
			snprintf(folder, PATH, "%s", all->dls_serpath[i].dls_name);
	free(all);
}

static void find_places(const char *package, char places[PLACES][PATH])
{
	const char *hpcx = secure_getenv("HPCX_UCX_DIR");
	snprintf(places[HPCX], PATH, "%s%s", hpcx ? hpcx : "", hpcx ? "/lib" : "");
	snprintf(places[PYTHON], PATH, "%s", package ? package : "");
	if (!package)
		dl_iterate_phdr(look_at_library, places[PYTHON]);
	snprintf(places[LOADER], PATH, "/usr/local/lib");
	find_loaders(places[LOADER]);
	snprintf(places[OPT_HPCX], PATH, "/opt/hpcx/ucx/lib");
}

/* Whether this process may open an RDMA adapter. */
static int has_adapters(void)
{
	char name[32];
	int is_there = 0;
	for (int i = 0; i < ADAPTERS && !is_there; i++) {
		snprintf(name, sizeof name, "uverbs%d", i);
		is_there = has_file("/dev/infiniband", name);
	}
	return is_there;
}

/* The first that opens, of those with verbs where that is asked for: then it says which it has passed by. */
static int open_first(char places[PLACES][PATH], int with_verbs, char *why_not, char *where, size_t bytes)
{
	const char *passed = NULL;
	char path[PATH];
	for (int i = 0; i < PLACES; i++) {
		if (!places[i][0] || (with_verbs && !has_file(places[i], verbs)))
			passed = passed || !has_file(places[i], ucp) ? passed : places[i];
		else if (i == LOADER ? open_one(ucp, 0, path, PATH) : open_folder(places[i], path, PATH))
			memcpy(why_not, path, i == LOADER ? PATH : 0);
		else
			return snprintf(where, bytes, "%s%s%s%s", path, passed ? " (" : "",
					passed ? passed : "",
					passed ? " comes first, but was built without verbs, and there are "
						 "RDMA adapters)"
					       : "") < 0;
	}
	return -1;
}

/* 0: UCX is loaded. */
static int load(const char *wanted, const char *package, char *where, size_t bytes)
{
	char places[PLACES][PATH], why[PATH] = "";
	if (wanted[0])
		return open_wanted(wanted, where, bytes);
	find_places(package, places);
	if ((has_adapters() && !open_first(places, 1, why, where, bytes)) ||
	    !open_first(places, 0, why, where, bytes))
		return 0;
	snprintf(where, bytes,
		 "no UCX was found (%s); install it (Debian, Ubuntu: apt install libucx0; Python: pip "
		 "install libucx-cu12 or libucx-cu13, 1.13 or later), load HPC-X's module, or set "
		 "CORALE_UCX_LIBRARY to the path of libucp.so.0",
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

int ucx_find(const char *wanted, const char *package, char *where, size_t bytes)
{
	if (!open_one(ucp, RTLD_NOLOAD, where, bytes))
		return 0;
	const int ret = load(wanted, package, where, bytes);
	if (!ret)
		give_signals_back();
	return ret;
}
