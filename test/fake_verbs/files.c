/* The device's file, which programs look for: /dev/null stands for it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *stand_in(const char *path)
{
	static const char file[] = "/dev/infiniband/uverbs0";
	return strcmp(path, file) ? path : "/dev/null";
}

int access(const char *path, int mode)
{
	int (*next)(const char *, int) = (int (*)(const char *, int))dlsym(RTLD_NEXT, "access");
	return next(stand_in(path), mode);
}

int stat(const char *restrict path, struct stat *restrict status)
{
	int (*next)(const char *, struct stat *) =
	    (int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");
	return next(stand_in(path), status);
}
