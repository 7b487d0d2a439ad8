/*
 * What the host side and the kernels agree on: the layout of a GPU's window, the arguments of a launch, and
 * the launchers. Compiles as C and as CUDA.
 *
 * A window is memory of its owner's GPU that all peers of the host map. Others write into it and only the
 * owner reads it, because a GPU polls its own memory at no cost to the links:
 *   control    abort word
 *   consumed   one line per lane that the owner sends on: how many of its messages the peer has read (credits)
 *   headers    one line per message slot of every lane that leads to the owner
 *   payload    the slots themselves
 * A lane is (peer, channel, ring). Message k of a lane lies in slot k mod slots, whatever the plan's depth, so
 * that calls of different plans follow each other; its header holds k + 1. Sequence numbers never restart.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include "plan/plan_eval.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KERNELS_MAX_PEERS = 72, KERNELS_LINE = 64, KERNELS_CONTROL_BYTES = 256, KERNELS_MAX_WIDTH = 32 };

struct kernels_header { /* a line */
	uint64_t sequence; /* written last */
	uint64_t signature;
	uint64_t bytes;
	uint64_t pad[5];
};

struct kernels_control {
	uint64_t abort; /* 0, or who << 32 | -code: the first failure that this window's owner learnt of */
	uint32_t recorded; /* a block of the owner has told its host */
};

struct kernels_layout {
	int peers, channels, slots;
	size_t slot_bytes; /* a multiple of KERNELS_LINE */
	size_t consumed, headers, payload, bytes; /* offsets, and the whole */
};

PLAN_FN size_t kernels_lane(const struct kernels_layout *layout, int peer, int channel, int ring)
{
	return ((size_t)peer * (size_t)layout->channels + (size_t)channel) * PLAN_MAX_RINGS + (size_t)ring;
}

PLAN_FN void kernels_layout_init(struct kernels_layout *layout, int peers, int channels, int slots,
				 size_t slot_bytes)
{
	layout->peers = peers;
	layout->channels = channels;
	layout->slots = slots;
	layout->slot_bytes = plan_div_up(slot_bytes, KERNELS_LINE) * KERNELS_LINE;
	size_t lanes = kernels_lane(layout, peers, 0, 0);
	layout->consumed = KERNELS_CONTROL_BYTES;
	layout->headers = layout->consumed + lanes * KERNELS_LINE;
	layout->payload = layout->headers + lanes * (size_t)slots * KERNELS_LINE;
	layout->bytes = layout->payload + lanes * (size_t)slots * layout->slot_bytes;
}

/* In the window of the lane's sender. */
PLAN_FN uint64_t *kernels_consumed(const struct kernels_layout *layout, unsigned char *window, size_t lane)
{
	return (uint64_t *)(window + layout->consumed + lane * KERNELS_LINE);
}

/* In the window of the lane's receiver. */
PLAN_FN struct kernels_header *kernels_header(const struct kernels_layout *layout, unsigned char *window,
					      size_t lane, uint64_t message)
{
	size_t slot = lane * (size_t)layout->slots + (size_t)(message % (uint64_t)layout->slots);
	return (struct kernels_header *)(window + layout->headers + slot * KERNELS_LINE);
}

PLAN_FN unsigned char *kernels_payload(const struct kernels_layout *layout, unsigned char *window,
				       size_t lane, uint64_t message)
{
	size_t slot = lane * (size_t)layout->slots + (size_t)(message % (uint64_t)layout->slots);
	return window + layout->payload + slot * layout->slot_bytes;
}

PLAN_FN size_t kernels_progress(const struct kernels_layout *layout, int program, int channel, int member)
{
	return ((size_t)program * (size_t)layout->channels + (size_t)channel) * KERNELS_MAX_WIDTH +
	       (size_t)member;
}

/* What went wrong first on this GPU, in host memory that kernels write; code last. */
struct kernels_failure {
	int32_t code; /* 0, or a CORALE_E* code */
	int32_t program, channel, op, peer, ring, sending;
	uint64_t message, expected, got; /* sequence numbers, bytes or signatures, by code */
};

/* How many messages this GPU's programs have sent and received on each lane; in its own memory, never reset. */
struct kernels_counters {
	uint64_t *sent, *received;
};

struct kernels_steps {
	struct plan plan;
	struct plan_env env; /* its map lies in device memory */
	struct kernels_layout layout;
	unsigned char *windows[KERNELS_MAX_PEERS]; /* as mapped here, my own included */
	const int *peer_of; /* by rank: index of its window; device memory */
	struct kernels_counters counters;
	uint64_t *progress; /* by program, channel and block of its team; device memory */
	uint64_t call; /* calls so far on this device: how blocks of a team tell this call's progress */
	const void *send;
	void *recv;
	unsigned char *scratch; /* of all channels */
	uint64_t signature; /* what every message of the call must carry */
	uint64_t timeout_ns; /* of one wait */
	uint64_t stall_ns; /* tests: one block of each team is so late with each action */
	const uint32_t *abort; /* in host memory: non-zero, a CORALE_E* code negated, ends all waits */
	struct kernels_failure *failure;
	uint32_t programs; /* bit p: program p runs here */
	uint8_t width[PLAN_MAX_PROGRAMS]; /* blocks of its team */
	int32_t type, op;
};

/* Loads all kernels, so that no later launch waits for it. Returns 0 or a cudaError_t. */
int kernels_load(void);
/* Starts the programs of a plan. Returns 0 or a cudaError_t. */
int kernels_launch_steps(const struct kernels_steps *args, void *stream);
/* True if the step executor has code for this combination. */
int kernels_offer(int type, int op, int wire_type);

#ifdef __cplusplus
}
#endif

#endif
