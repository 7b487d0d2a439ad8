/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of TCP ports: as bytes that travel, as sockaddr, as text; and which of this host's addresses to listen at. */
#ifndef BOOT_ADDRESS_H
#define BOOT_ADDRESS_H

#include <stdint.h>
#include <sys/socket.h>

enum { BOOT_ADDRESS_TEXT = 64, BOOT_INTERFACE_TEXT = 16 };

struct boot_address {
	uint16_t family; /* 4 or 6; 0: none */
	uint16_t port; /* host order; 0: the kernel chooses */
	unsigned char ip[16]; /* network order; of IPv4 the first 4, zeros behind */
};

/* 1 if the family is known and what is unused is 0. */
int boot_address_is_valid(const struct boot_address *a);
socklen_t boot_address_to_socket(const struct boot_address *a, struct sockaddr_storage *out);
int boot_address_from_socket(const struct sockaddr *from, struct boot_address *out);
/* "10.0.0.1:4000", "[fe80::1]:4000" */
const char *boot_address_text(const struct boot_address *a, char text[BOOT_ADDRESS_TEXT]);
/* "host:port" or "[v6]:port"; a name is resolved, which may block. family: 0 any, 4 or 6. CORALE_EINVAL with a line that names text. */
int boot_address_parse(const char *text, int family, struct boot_address *out);

/* An address of this host to listen at, with port 0, and its interface's name. spec: NCCL_SOCKET_IFNAME, NULL or "" (interface_choose).
 * CORALE_ESYSTEM or CORALE_EINVAL with a line that lists the interfaces that are there. */
int boot_interface_choose(const char *spec, int family, struct boot_address *out,
			  char name[BOOT_INTERFACE_TEXT]);

#endif
