/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "interfaces.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static int item_matches(const char *item, size_t length, int exact, const char *name)
{
	if (length && item[0] == '=') {
		exact = 1;
		item++;
		length--;
	}
	const char *colon = memchr(item, ':', length);
	if (colon)
		length = (size_t)(colon - item);
	return length && !strncmp(item, name, length) && (!exact || strlen(name) == length);
}

int interface_matches(const char *spec, const char *name)
{
	int exclude = spec[0] == '^', matches = 0;
	spec += exclude;
	int exact = spec[0] == '='; /* of the whole list */
	spec += exact;
	while (*spec) {
		size_t length = strcspn(spec, ",");
		matches |= item_matches(spec, length, exact, name);
		spec += length + (spec[length] == ',');
	}
	return matches != exclude;
}

int interface_class(const char *name)
{
	if (!strncmp(name, "ib", 2))
		return INTERFACE_IB;
	if (!strncmp(name, "docker", 6))
		return INTERFACE_DOCKER;
	return !strcmp(name, "lo") ? INTERFACE_LOOPBACK : INTERFACE_OTHER;
}

/* 4 or 6, 0: the entry has no IP address. */
int interface_family(const char *text)
{
	if (!strcmp(text, "AF_INET6"))
		return 6;
	return strcmp(text, "AF_INET") ? 0 : 4;
}

static int family_of(const struct ifaddrs *entry)
{
	const int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
	return family == AF_INET ? 4 : family == AF_INET6 ? 6 : 0;
}

static int is_link_local(const struct ifaddrs *entry)
{
	return family_of(entry) == 6 &&
	       IN6_IS_ADDR_LINKLOCAL(
		   &((const struct sockaddr_in6 *)(const void *)entry->ifa_addr)->sin6_addr);
}

int interface_is_named(const char *spec)
{
	return spec && spec[0] && spec[0] != '^';
}

/* How good an entry is, less is better; -1: unusable. */
static int order_of(const struct ifaddrs *entry, const char *spec, int family)
{
	enum { CLASSES = INTERFACE_LOOPBACK + 1 };
	const int own = family_of(entry);
	if (!own || (family && own != family) || !(entry->ifa_flags & IFF_UP) || is_link_local(entry))
		return -1;
	if (spec && spec[0] && !interface_matches(spec, entry->ifa_name))
		return -1;
	return (interface_is_named(spec) ? 0 : interface_class(entry->ifa_name)) +
	       (entry->ifa_flags & IFF_RUNNING ? 0 : CLASSES);
}

const struct ifaddrs *interface_choose(const struct ifaddrs *all, const char *spec, int family)
{
	const struct ifaddrs *best = NULL;
	int least = -1;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		const int order = order_of(i, spec, family);
		if (order < 0 || (best && order >= least))
			continue;
		best = i;
		least = order;
	}
	return best;
}

/* Adds a name to a list; one that does not fit is left out. */
static void add(char *text, size_t bytes, const char *comma, const char *name, size_t length)
{
	const size_t used = strlen(text);
	if (used + strlen(comma) + length < bytes)
		snprintf(text + used, bytes - used, "%s%.*s", used ? comma : "", (int)length, name);
}

void interface_names(const struct ifaddrs *all, char *text, size_t bytes)
{
	text[0] = '\0';
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (family_of(i))
			add(text, bytes, ", ", i->ifa_name, strlen(i->ifa_name));
}

/* Of the device: an address may have a label of its own behind a colon ("eth0:1"). */
static size_t device_length(const char *name)
{
	return strcspn(name, ":");
}

static int is_same_device(const char *a, const char *b)
{
	const size_t length = device_length(a);
	return length == device_length(b) && !strncmp(a, b, length);
}

int interface_is_first(const struct ifaddrs *all, const struct ifaddrs *entry)
{
	for (const struct ifaddrs *i = all; i != entry; i = i->ifa_next)
		if (family_of(i) && is_same_device(i->ifa_name, entry->ifa_name))
			return 0;
	return family_of(entry) != 0;
}

int interface_goes_along(const struct ifaddrs *entry, const struct ifaddrs *best, const char *spec)
{
	return is_same_device(entry->ifa_name, best->ifa_name) ||
	       (interface_is_named(spec) && interface_matches(spec, entry->ifa_name));
}
