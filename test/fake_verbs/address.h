/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles: where a datagram goes. */
#ifndef FAKE_VERBS_ADDRESS_H
#define FAKE_VERBS_ADDRESS_H

#include <infiniband/verbs.h>

uint16_t fake_address_lid(const struct ibv_ah *ah);

#endif
