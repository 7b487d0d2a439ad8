/* SPDX-License-Identifier: BSD-3-Clause */
/* Network interfaces of a host: the grammar in which NCCL_SOCKET_IFNAME names them, and which of them leads to this process. Pure. */
#ifndef INTERFACES_H
#define INTERFACES_H

#include <ifaddrs.h>
#include <stddef.h>

/*
 * 1 if an interface's name matches spec, which has NCCL_SOCKET_IFNAME's grammar: names separated by commas; each is a prefix, with a
 * leading "=" a whole name; a leading "^" ("^eth", "^=eth0,eth1") turns the list into those to leave out. ":port" behind a name is ignored.
 */
int interface_matches(const char *spec, const char *name);

/* The family of addresses that NCCL_SOCKET_FAMILY names: 4 (AF_INET), 6 (AF_INET6); 0: any, also of another text, as NCCL has it. */
int interface_family(const char *text);

/* The order of interfaces that nobody names: ib*, others, docker*, lo. */
enum { INTERFACE_IB, INTERFACE_OTHER, INTERFACE_DOCKER, INTERFACE_LOOPBACK };
int interface_class(const char *name);

/*
 * The best entry of getifaddrs's list, the first of equal ones; NULL: none is usable. Usable: it is up, has an address of the family (0: any, 4 or 6),
 * no link-local one of IPv6, and spec ("", NULL: any) does not leave it out. Interfaces that run are better than those without a carrier;
 * then those that spec names are equal, and all others have their class.
 */
const struct ifaddrs *interface_choose(const struct ifaddrs *all, const char *spec, int family);

/* "lo, eth0": the names of all entries that have an address, for a message. */
void interface_names(const struct ifaddrs *all, char *text, size_t bytes);

/* 1 if spec names interfaces, rather than those to leave out. */
int interface_is_named(const char *spec);

/* 1 if an entry has an IP address, and none before it is of the same device ("eth0:1", a label of an address, is of eth0). */
int interface_is_first(const struct ifaddrs *all, const struct ifaddrs *entry);

/* 1 if data may use an entry's device beside that of interface_choose's entry: it is the same, or spec names both. */
int interface_goes_along(const struct ifaddrs *entry, const struct ifaddrs *best, const char *spec);

#endif
