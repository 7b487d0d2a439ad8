/* SPDX-License-Identifier: BSD-3-Clause */
/* The library's side of modules: it finds, checks and starts them. */
#define _GNU_SOURCE
#include "module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"

enum { PATH = 1024, WHY = 1024 };

static const char *const files[MODULES] = { "corale_ucx.so", "corale_hwloc.so" };

/* What has become of a module. */
struct found {
	pthread_mutex_t lock;
	int is_done;
	const struct module *module;
	char why_not[WHY];
};

static struct found all[MODULES] = { { .lock = PTHREAD_MUTEX_INITIALIZER },
				     { .lock = PTHREAD_MUTEX_INITIALIZER } };

static void write_line(enum log_level level, int rank, const char *text)
{
	log_line(level, rank, "%s", text);
}

/* In CORALE_MODULES; or where the library or program that this code is in belongs to: in its installation (programs), below it (libcorale), beside it. */
static void path_of(const struct settings *settings, enum module_name name, char path[PATH])
{
	static const char *const from[] = { "../lib/corale/", "corale/", "" };
	enum { BESIDE = 2 };
	Dl_info self;
	const char *folder = settings->modules;
	int length = (int)strlen(folder), i = BESIDE;
	if (!length && dladdr((const void *)&all, &self)) {
		folder = self.dli_fname;
		const char *end = strrchr(folder, '/');
		length = end ? (int)(end - folder) : 0;
		i = end ? 0 : BESIDE;
	}
	for (;; i++) {
		snprintf(path, PATH, "%.*s%s%s%s", length, folder, length ? "/" : "", from[i], files[name]);
		if (i == BESIDE || !access(path, R_OK))
			return;
	}
}

static int is_of_this_build(const struct module *module)
{
	const size_t bytes[] = MODULE_BYTES;
	return module->bytes[0] == bytes[0] && !memcmp(module->bytes, bytes, sizeof bytes) &&
	       module->version == CORALE_VERSION;
}

static void open_module(enum module_name name, struct found *found)
{
	const struct settings *settings;
	char path[PATH], where[400] = "";
	descriptors_hold_standard();
	if (settings_get(&settings)) {
		snprintf(found->why_not, WHY, "settings are malformed: see the line above");
		return;
	}
	if (name == MODULE_UCX && ucx_find(settings->ucx_library, NULL, found->why_not, WHY))
		return;
	if (name == MODULE_UCX)
		snprintf(where, sizeof where, " with %.390s", found->why_not);
	path_of(settings, name, path);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	const struct module *module = library ? dlsym(library, "corale_module") : NULL;
	if (!module) {
		snprintf(found->why_not, WHY,
			 "%s can't be loaded%s: %.500s; install Corale with it (configure --with-ucx "
			 "--with-hwloc), or set CORALE_MODULES to its folder",
			 files[name], where, library ? "it has no corale_module" : dlerror());
	} else if (!is_of_this_build(module)) {
		snprintf(found->why_not, WHY,
			 "%.700s is of another build of Corale than this library (version %d.%d.%d): install "
			 "both from one build",
			 path, CORALE_VERSION_MAJOR, CORALE_VERSION_MINOR, CORALE_VERSION_PATCH);
	} else {
		module->start(log_level, write_line, transport_exit);
		log_line(LOG_INFO, -1, "module %s is loaded%s", path, where);
		found->module = module;
	}
}

const struct module *module_find(enum module_name name, char *why_not, size_t bytes)
{
	pthread_mutex_lock(&all[name].lock);
	if (!all[name].is_done)
		open_module(name, &all[name]);
	all[name].is_done = 1;
	pthread_mutex_unlock(&all[name].lock);
	if (!all[name].module)
		snprintf(why_not, bytes, "%s", all[name].why_not);
	return all[name].module;
}
