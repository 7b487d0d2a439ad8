/* SPDX-License-Identifier: BSD-3-Clause */
#include "boot_wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/interfaces.h"
#include "base/log.h"
#include "corale.h"

static const unsigned char zeros[16];

int boot_address_is_valid(const struct boot_address *a)
{
	return a->family == 6 || (a->family == 4 && !memcmp(a->ip + 4, zeros, 12));
}

socklen_t boot_address_to_socket(const struct boot_address *a, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (a->family == 4) {
		struct sockaddr_in *in = (struct sockaddr_in *)out;
		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip, 4);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(a->port);
	memcpy(&in6->sin6_addr, a->ip, 16);
	return sizeof(*in6);
}

int boot_address_from_socket(const struct sockaddr *from, struct boot_address *out)
{
	memset(out, 0, sizeof(*out));
	if (from->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)from;
		out->family = 4;
		out->port = ntohs(in->sin_port);
		memcpy(out->ip, &in->sin_addr, 4);
		return 1;
	}
	if (from->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
		out->family = 6;
		out->port = ntohs(in6->sin6_port);
		memcpy(out->ip, &in6->sin6_addr, 16);
		return 1;
	}
	return 0;
}

const char *boot_address_text(const struct boot_address *a, char text[BOOT_ADDRESS_TEXT])
{
	char ip[INET6_ADDRSTRLEN] = "?";
	inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->ip, ip, sizeof(ip));
	snprintf(text, BOOT_ADDRESS_TEXT, a->family == 4 ? "%s:%u" : "[%s]:%u", ip, (unsigned)a->port);
	return text;
}

/* Splits "host:port" or "[v6]:port". Returns the port, 0 if the text has none. */
static unsigned split_port(const char *text, char host[256])
{
	const char *end = strrchr(text, ':'), *from = text;
	if (!end)
		return 0;
	size_t length = (size_t)(end - text);
	if (text[0] == '[') {
		if (length < 2 || end[-1] != ']')
			return 0;
		from++;
		length -= 2;
	}
	char *rest;
	unsigned long port = strtoul(end + 1, &rest, 10);
	if (end[1] < '0' || end[1] > '9' || *rest || port > 65535 || !length || length > 255)
		return 0;
	memcpy(host, from, length);
	host[length] = '\0';
	return (unsigned)port;
}

int boot_address_parse(const char *text, int family, struct boot_address *out)
{
	char host[256];
	unsigned port = split_port(text, host);
	if (!port)
		return log_error(CORALE_EINVAL, -1,
				 "bootstrap: address '%s' (NCCL_COMM_ID) is not host:port or [v6]:port",
				 text);
	struct addrinfo hints = { .ai_family = family == 4   ? AF_INET
					       : family == 6 ? AF_INET6
							     : AF_UNSPEC,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	int error = getaddrinfo(host, NULL, &hints, &found);
	if (error || !found)
		return log_error(CORALE_EINVAL, -1,
				 "bootstrap: host '%s' of address '%s' (NCCL_COMM_ID) is not known: %s", host,
				 text, error ? gai_strerror(error) : "no address");
	int is_usable = boot_address_from_socket(found->ai_addr, out);
	freeaddrinfo(found);
	if (!is_usable)
		return log_error(CORALE_EINVAL, -1,
				 "bootstrap: address '%s' (NCCL_COMM_ID) is neither IPv4 nor IPv6", text);
	out->port = (uint16_t)port;
	return 0;
}

int boot_interface_choose(const char *spec, int family, struct boot_address *out,
			  char name[BOOT_INTERFACE_TEXT])
{
	struct ifaddrs *all;
	char names[256];
	if (getifaddrs(&all))
		return log_error(CORALE_ESYSTEM, -1,
				 "bootstrap: cannot list the network interfaces (getifaddrs): %s",
				 strerror(errno));
	const struct ifaddrs *best = interface_choose(all, spec, family);
	if (best) {
		boot_address_from_socket(best->ifa_addr, out);
		out->port = 0;
		snprintf(name, BOOT_INTERFACE_TEXT, "%s", best->ifa_name);
	}
	interface_names(all, names, sizeof(names));
	freeifaddrs(all);
	if (best)
		return 0;
	return log_error(CORALE_EINVAL, -1,
			 "bootstrap: no network interface matches NCCL_SOCKET_IFNAME '%s' with %s; "
			 "interfaces with addresses: %s",
			 spec && spec[0] ? spec : "(any)",
			 family == 4   ? "IPv4"
			 : family == 6 ? "IPv6"
				       : "any family",
			 names);
}
