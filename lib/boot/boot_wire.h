/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What travels: the id, and the payloads of frames. Everything is written byte by byte, little-endian; a decoder checks length and
 * each field's range, and returns 0 if something is wrong.
 *
 *   listener                                    rank
 *   CHALLENGE {magic, version, nonce}     ->
 *                                         <-    HELLO {..., nonce} and its HMAC over both nonces
 *   ACCEPT {maker} and its HMAC           ->                                   or REFUSE {why, code, text}
 *                                         <-    PART k, as soon as the rank calls
 *   TABLE, when all ranks are there       ->
 *   ALL k, when all parts are there       ->                                   or FAIL {code, rank, text}: the group has ended
 *                                         <-    WHO {k}: which ranks are missing for table or all-gather k?
 *   MISSING {ranks}                       ->
 *                                         <-    LEAVE {code, text}: this rank closes
 *
 * In a group that passes frames on (boot_source.h) the listener sends TABLE and ALL to the first ranks alone, and before them to each rank
 *   FEED {nonce, source}                  ->
 * The rank connects to the listener of its source's process in the same way, by a key of its own, and has TABLE and ALL from there, until
 *                                         <-    AGAIN k: have the listener send table or all-gather k, and later ones
 */
#ifndef BOOT_WIRE_H
#define BOOT_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "boot_frame.h"
#include "boot_tcp.h"
#include "hmac.h"

/* Addresses of TCP ports: as bytes that travel, as sockaddr, as text; and which of this host's addresses to listen at. */

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

enum {
	BOOT_PROTOCOL = 2,
	BOOT_NONCE_BYTES = 16,
	BOOT_KEY_BYTES = 32,
	BOOT_HOST_BYTES = 64,
	BOOT_ID_HOST_BYTES = 32,
	BOOT_TEXT_BYTES = 480,
	BOOT_RANGES = 64,
	BOOT_CHALLENGE_BYTES = 8 + 4 + BOOT_NONCE_BYTES,
	BOOT_PEER_BYTES = 20 + 8 + 8 + BOOT_HOST_BYTES,
	/* magic, version: the same in all versions, so that another one can be named */
	BOOT_HELLO_PREFIX_BYTES = 8 + 4,
	BOOT_HELLO_BYTES = BOOT_HELLO_PREFIX_BYTES + 4 + 8 + 8 + 4 + 4 + BOOT_PEER_BYTES + BOOT_NONCE_BYTES,
	BOOT_PROOF_BYTES = BOOT_HELLO_BYTES + HMAC_BYTES,
	BOOT_ACCEPT_BYTES = BOOT_PEER_BYTES + HMAC_BYTES,
	BOOT_FEED_BYTES = BOOT_NONCE_BYTES + BOOT_PEER_BYTES,
};

enum boot_kind {
	BOOT_CHALLENGE = 1,
	BOOT_HELLO,
	BOOT_ACCEPT,
	BOOT_REFUSE,
	BOOT_TABLE,
	BOOT_PART,
	BOOT_ALL,
	BOOT_WHO,
	BOOT_MISSING,
	BOOT_FAIL,
	BOOT_LEAVE,
	BOOT_FEED,
	BOOT_AGAIN
};

/* Groups whose first rank registers them at its own listener, so others may come before that. */
enum { BOOT_ID_ADDRESS = 1, BOOT_ID_CHILD = 2 };

struct boot_id {
	uint32_t flags;
	struct boot_address address; /* of the listener where the group meets */
	uint64_t process; /* that listener's process_number; 0: not known, with BOOT_ID_ADDRESS */
	uint64_t name; /* of the group, derived from the key and no secret */
	unsigned char key[BOOT_KEY_BYTES];
	char host[BOOT_ID_HOST_BYTES]; /* where it was made, for messages; may be cut. "" with flags */
};

/* Behind "rank 3": ids of children number the ranks of what is being made, and their log lines are of the parent's ranks. */
static inline const char *boot_id_whose(const struct boot_id *id)
{
	return id->flags & BOOT_ID_CHILD ? " of the new communicator" : "";
}

enum boot_id_fault { BOOT_ID_GOOD, BOOT_ID_OTHER_LIBRARY, BOOT_ID_OTHER_VERSION, BOOT_ID_DAMAGED };

void boot_id_encode(const struct boot_id *id, unsigned char out[BOOT_ID_BYTES]);
enum boot_id_fault boot_id_decode(const unsigned char in[BOOT_ID_BYTES], struct boot_id *id);
/* The version that an id claims. */
uint32_t boot_id_version(const unsigned char in[BOOT_ID_BYTES]);
uint64_t boot_name_of_key(const unsigned char key[BOOT_KEY_BYTES]);
void boot_child_key(const unsigned char parent[BOOT_KEY_BYTES], const int *ranks, int n, uint64_t tag,
		    unsigned char key[BOOT_KEY_BYTES]);

/* Of the connections to rank's source in the group that has this nonce. */
void boot_feed_key(const unsigned char group[BOOT_KEY_BYTES], const unsigned char nonce[BOOT_NONCE_BYTES],
		   int rank, unsigned char key[BOOT_KEY_BYTES]);

/* A process, for messages and for children. */
struct boot_peer {
	struct boot_address listener;
	uint64_t process; /* its process_number */
	int64_t pid;
	char host[BOOT_HOST_BYTES];
};

/* All but the listener's address. */
void boot_peer_fill(struct boot_peer *peer);
void boot_peer_encode(const struct boot_peer *peer, unsigned char out[BOOT_PEER_BYTES]);
int boot_peer_decode(const unsigned char in[BOOT_PEER_BYTES], struct boot_peer *peer);

struct boot_hello {
	uint32_t version;
	uint64_t process, name; /* of the id */
	int32_t rank, size;
	struct boot_peer peer;
	unsigned char nonce[BOOT_NONCE_BYTES];
};

void boot_hello_encode(const struct boot_hello *hello, unsigned char out[BOOT_HELLO_BYTES]);
/* The version, 0 if this is no HELLO. */
uint32_t boot_hello_version(const unsigned char *in, size_t bytes);
int boot_hello_decode(const unsigned char *in, size_t bytes, struct boot_hello *hello);

/*
 * Proof of the key: the listener's in its answer to a hello, or with maker NULL that of the rank that sends the hello. Each
 * direction has its own word, so that no answer can be sent back as a proof.
 */
void boot_prove(const unsigned char key[BOOT_KEY_BYTES], const unsigned char challenge[BOOT_NONCE_BYTES],
		const unsigned char hello[BOOT_HELLO_BYTES], const unsigned char *maker,
		unsigned char mac[HMAC_BYTES]);

/* HELLO with its proof; hello gets the part that is proved. */
struct frame *boot_hello_frame(const struct boot_hello *h, const unsigned char key[BOOT_KEY_BYTES],
			       const unsigned char challenge[BOOT_NONCE_BYTES],
			       unsigned char hello[BOOT_HELLO_BYTES]);
/* ACCEPT with its proof, and 1 if an ACCEPT proves the key. */
struct frame *boot_accept_frame(const struct boot_peer *maker, const unsigned char key[BOOT_KEY_BYTES],
				const unsigned char challenge[BOOT_NONCE_BYTES],
				const unsigned char hello[BOOT_HELLO_BYTES]);
int boot_accept_is_good(const unsigned char in[BOOT_ACCEPT_BYTES], const unsigned char key[BOOT_KEY_BYTES],
			const unsigned char challenge[BOOT_NONCE_BYTES],
			const unsigned char hello[BOOT_HELLO_BYTES]);

struct frame *boot_challenge(const unsigned char nonce[BOOT_NONCE_BYTES]);
int boot_challenge_decode(const unsigned char *in, size_t bytes, unsigned char nonce[BOOT_NONCE_BYTES]);

/* REFUSE, FAIL and LEAVE: a code, a number (why refused; which rank), and a text. */
enum boot_refusal { BOOT_REFUSE_FINAL, BOOT_REFUSE_UNKNOWN, BOOT_REFUSE_OTHER_PROCESS };
struct boot_reason {
	int32_t code, what;
	char text[BOOT_TEXT_BYTES];
};
struct frame *boot_reason_frame(enum boot_kind kind, const struct boot_reason *reason);
int boot_reason_decode(const unsigned char *in, size_t bytes, struct boot_reason *reason);

/* MISSING: ranks in ascending order, as ranges of them. */
struct boot_missing {
	int ranks, nranges; /* ranks: how many, those included that the ranges have no room for */
	struct boot_range {
		int first, last;
	} ranges[BOOT_RANGES];
};

/* A rank above those that were added before. */
void boot_missing_add(struct boot_missing *missing, int rank);
int boot_missing_has(const struct boot_missing *missing, int rank);
/* "3, 5, 8 to 15" */
const char *boot_missing_text(const struct boot_missing *missing, char *text, size_t bytes);
struct frame *boot_missing_frame(uint64_t number, const struct boot_missing *missing);
/* Of a group of so many ranks. */
int boot_missing_decode(const unsigned char *in, size_t bytes, int size, struct boot_missing *missing);

/* Random bytes of the kernel: 0, or CORALE_ESYSTEM with a line. */
int boot_random(void *to, size_t bytes);

#endif
