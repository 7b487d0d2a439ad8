/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: made, and checked when they come back. */
#include "boot_rank.h"

#include <string.h>

#include "base/log.h"
#include "boot_listener.h"
#include "corale.h"

int boot_id_check(const unsigned char bytes[BOOT_ID_BYTES], int rank, struct boot_id *id)
{
	switch (boot_id_decode(bytes, id)) {
	case BOOT_ID_GOOD:
		return 0;
	case BOOT_ID_OTHER_LIBRARY:
		return log_error(CORALE_EINVAL, rank,
				 "bootstrap: this id was made by another NCCL library: is every process "
				 "started under corale-run?");
	case BOOT_ID_OTHER_VERSION:
		return log_error(CORALE_ENOTSUP, rank,
				 "bootstrap: this id was made by a Corale with version %u of the protocol, "
				 "this one speaks version %d; all processes must use the same Corale",
				 boot_id_version(bytes), BOOT_PROTOCOL);
	default:
		return log_error(CORALE_EINVAL, rank,
				 "bootstrap: this id is damaged; all %d bytes must be passed on unchanged",
				 BOOT_ID_BYTES);
	}
}

static int create_at(const struct boot_options *o, struct boot_id *id)
{
	static const char word[] = "address";
	struct sha256 s;
	id->flags = BOOT_ID_ADDRESS;
	sha256_start(&s);
	sha256_add(&s, word, sizeof(word));
	sha256_add(&s, o->address, strlen(o->address));
	sha256_end(&s, id->key);
	id->name = boot_name_of_key(id->key);
	return boot_address_parse(o->address, o->family, &id->address);
}

static int create_here(const struct boot_options *o, struct boot_id *id)
{
	struct boot_peer self;
	int ret = boot_listener_start(o, &self);
	if (!ret)
		ret = boot_random(id->key, sizeof(id->key));
	if (ret)
		return ret;
	id->address = self.listener;
	id->process = self.process;
	memcpy(id->host, self.host, sizeof(id->host) - 1); /* the rest is zero */
	id->name = boot_name_of_key(id->key);
	return boot_listener_expect(o, id);
}

int boot_id_create(const struct boot_options *o, unsigned char out[BOOT_ID_BYTES])
{
	static const struct boot_options defaults;
	struct boot_id id = { .flags = 0 };
	if (!o)
		o = &defaults;
	int ret = o->address && o->address[0] ? create_at(o, &id) : create_here(o, &id);
	if (!ret)
		boot_id_encode(&id, out);
	return ret;
}
