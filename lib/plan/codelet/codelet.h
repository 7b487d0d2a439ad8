/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A codelet runs a collective of a known shape on a GPU: in one launch, or by copy engines. Choice, launch and printing know it by one struct codelet, in
 * lib/plan/codelet/X.c; the engine runs it in lib/cuda/codelet/X.c; its kernels are in kernels/ (docs/design.md names the files). Rows (row.h) say which
 * collectives it runs, by which protocol. Pure.
 *
 * Source of the form: FFTW's solvers (all of one solver in one file) and UCX's ucp_proto_t.
 */
#ifndef CODELET_H
#define CODELET_H

#include "plan/machine/machine.h"
#include "plan/plan.h"

struct row;
struct launch;

/* How fast a codelet runs calls of one row. */
struct codelet_rate {
	/* us before the first byte, GB/s of one GPU's link, us of each further piece */
	struct {
		double start_us, gbs, piece_us;
	} of[RATES_GENERATIONS];
	int exchanges; /* between ranks, one after the other: each adds rates.later_us */
	enum rates_block block; /* the rate of one CUDA block of its kernel: few blocks do not fill a link */
};

/* Of calls in one piece, on a Hopper and on an unknown GPU. */
struct codelet_rate codelet_rate(double hopper_us, double hopper_gbs, double unknown_us, double unknown_gbs,
				 int exchanges, enum rates_block block);

/* By name, as codelet_index_bulk: the order of codelets.def. */
enum {
#define CODELET(name) codelet_index_##name,
#include "codelets.def"
#undef CODELET
	CODELETS
};

/* Written by position, so that a codelet that lacks a part does not compile. What no row names has no functions: lowered. */
struct codelet {
	const char *name;
	int index; /* in codelet_list, and its bit in sets of codelets */
	enum plan_engine engine; /* who moves the bytes */
	/* 1 if it can run a row's call. */
	int (*can)(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);
	/* Modelled time of a call that it can run. */
	double (*us)(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);
	/* Its rate: among two ranks it differs from that among more. */
	struct codelet_rate (*rate)(const struct row *row, const struct gpu_machine *machine);
	/* Bytes that leave one GPU, at most; pieces in which a call goes, each with an epoch (NULL: one). */
	double (*sent)(const struct row *row, const struct gpu_machine *machine, uint64_t bytes);
	uint64_t (*pieces)(const struct row *row, const struct gpu_machine *machine, uint64_t bytes);
	/* Variant, grid, pieces and messages of a launch, from the fields before them. */
	void (*cut)(struct launch *launch);
	/* Bytes that one rank sends another one in a call with data, of several ranks, at most. */
	uint64_t (*to_peer)(const struct launch *launch);
	/* Names of its kernels, by the launch's variant. */
	const char *const *kernels;
	/* 1 if the ranks of a call read each other's buffers, where they have mapped them. NULL: of none. */
	int (*zero_copy)(const struct row *row, const struct gpu_machine *machine,
			 const struct plan_call *call);
};

#define CODELET(name) extern const struct codelet name##_codelet;
#include "codelets.def"
#undef CODELET

extern const struct codelet *const codelet_list[CODELETS]; /* by index */

/* GB/s of a row's calls: of one GPU's link, and of each block of the kernel (0: copy engines move the bytes), by the machine's rates. */
struct codelet_speed {
	double link_gbs, block_gbs;
};
struct codelet_speed codelet_speed_of(const struct row *row, const struct gpu_machine *machine);
/* With as many blocks as a kernel may have: what the link or they do, whichever is lower. */
double codelet_gbs(const struct codelet_speed *speed, const struct gpu_machine *machine);
/* Modelled time: start, further pieces, and the bytes at the rate of the link or of a kernel's blocks, whichever is lower. */
double codelet_us(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call);
/* The same at another rate than the row's. */
double codelet_us_at(const struct row *row, const struct gpu_machine *machine, const struct plan_call *call,
		     const struct codelet_rate *rate);
/* Bytes that leave a GPU: a vector to each other rank; the parts of a reduce-scatter and an all-gather. */
double codelet_sent_to_all(const struct row *row, const struct gpu_machine *machine, uint64_t bytes);
double codelet_sent_in_parts(const struct row *row, const struct gpu_machine *machine, uint64_t bytes);

#endif
