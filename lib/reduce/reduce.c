/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce.h"

#include <string.h>

#include "reduce_block.h"
#include "base/float_env.h"
#include "base/status.h"
#include "base/types.h"

static int scales(const struct reduce_spec *spec, const struct reduce_input *input)
{
	return input->kind == REDUCE_SEND && spec->op == CORALE_NUM_OPS;
}

/* True if all that the operator does to two elements is to add them. */
static int adds(corale_op op)
{
	return op == CORALE_SUM || op == CORALE_AVG || op == CORALE_NUM_OPS;
}

/* True if all inputs are added as they are. */
static int is_plain_sum(const struct reduce_spec *spec, const struct reduce_input *inputs, int k)
{
	if (!adds(spec->op) || !reduce_sum_has(spec->type))
		return 0;
	for (int i = 0; i < k; i++)
		if (scales(spec, &inputs[i]))
			return 0;
	return 1;
}

/* Rounds a block to type, or wraps it, as if it had been stored. */
static void round_block(corale_type type, union reduce_block *block, size_t n)
{
	unsigned char stored[8 * REDUCE_BLOCK];

	reduce_store(type, block, stored, n);
	reduce_load(type, block, stored, n);
}

/* Elements [first, first + n) of an input, multiplied by the scalar where that applies. */
static void load_input(const struct reduce_spec *spec, const struct reduce_input *input, size_t first,
		       size_t n, union reduce_block *block)
{
	corale_type type = spec->type;
	unsigned char scalars[8 * REDUCE_BLOCK];
	union reduce_block factor;
	size_t bytes = corale_type_bytes(type);

	reduce_load(type, block, (const unsigned char *)input->data + first * bytes, n);
	if (!scales(spec, input))
		return;
	for (size_t i = 0; i < n; i++)
		memcpy(scalars + i * bytes, spec->scalar, bytes);
	reduce_load(type, &factor, scalars, n);
	reduce_combine(reduce_arithmetic(type), CORALE_PROD, block, &factor, n);
	round_block(type, block, n);
}

static void divide_block(const struct reduce_spec *spec, union reduce_block *acc, size_t n)
{
	if (!type_is_float(spec->type)) /* partial sums that travel wrap too */
		round_block(spec->type, acc, n);
	reduce_divide(reduce_arithmetic(spec->type), acc, spec->ranks, n);
}

static int divides(const struct reduce_spec *spec, int final)
{
	return final && spec->op == CORALE_AVG && spec->ranks > 1;
}

/* True if the result is the only input, bit for bit. */
static int is_copy(const struct reduce_spec *spec, const struct reduce_input *inputs, int k, int final)
{
	return k == 1 && !divides(spec, final) && !scales(spec, inputs);
}

static struct reduce_input input_at(const struct reduce_cells *cells, int i)
{
	const int left = cells->cells - cells->first, at = i < left ? cells->first + i : i - left;
	return (struct reduce_input){ (const unsigned char *)cells->data + (size_t)at * cells->bytes,
				      cells->kind };
}

/* Folds k inputs, which are in cells if inputs is NULL. */
static void fold(const struct reduce_spec *spec, void *dst, const struct reduce_input *inputs,
		 const struct reduce_cells *cells, int k, size_t count, int is_divided)
{
	const size_t bytes = corale_type_bytes(spec->type), most = reduce_block_length(spec->type);
	const corale_op op = adds(spec->op) ? CORALE_SUM : spec->op;
	union reduce_block acc, block;

	for (size_t first = 0; first < count; first += most) {
		size_t n = count - first < most ? count - first : most;
		for (int i = 0; i < k; i++) {
			const struct reduce_input input = inputs ? inputs[i] : input_at(cells, i);
			if (i == 0) {
				load_input(spec, &input, first, n, &acc);
				continue;
			}
			load_input(spec, &input, first, n, &block);
			reduce_combine(reduce_arithmetic(spec->type), op, &acc, &block, n);
		}
		if (is_divided)
			divide_block(spec, &acc, n);
		reduce_store(spec->type, &acc, (unsigned char *)dst + first * bytes, n);
	}
}

/* The fold of an element's parts, where that is the same: their type in *parts, and how many are in an element. */
static size_t parts_of(const struct reduce_spec *spec, struct reduce_spec *parts)
{
	*parts = *spec;
	if (!type_folds_parts(spec->type, spec->op))
		return 1;
	parts->type = (corale_type)type_rows[spec->type].part;
	return 2;
}

void reduce_fold(const struct reduce_spec *whole, void *dst, const struct reduce_input *inputs, int k,
		 size_t count, int final)
{
	struct reduce_spec parts;
	const struct reduce_spec *spec = &parts;
	count *= parts_of(whole, &parts);
	const int is_divided = divides(spec, final);

	if (is_copy(spec, inputs, k, final)) {
		if (dst != inputs[0].data && count)
			memmove(dst, inputs[0].data, count * corale_type_bytes(spec->type));
		return;
	}
	const float_env env = float_env_default();
	if (is_plain_sum(spec, inputs, k))
		reduce_sum(reduce_level(), spec->type, dst, inputs, k, count,
			   is_divided ? (float)spec->ranks : 0);
	else
		fold(spec, dst, inputs, NULL, k, count, is_divided);
	float_env_restore(env);
}

void reduce_fold_cells(const struct reduce_spec *whole, void *dst, const struct reduce_cells *cells,
		       size_t count, int final)
{
	struct reduce_spec parts;
	const struct reduce_spec *spec = &parts;
	const struct reduce_input first = input_at(cells, 0);

	if (cells->folded == 1) {
		reduce_fold(whole, dst, &first, 1, count, final);
		return;
	}
	count *= parts_of(whole, &parts);
	const float_env env = float_env_default();
	fold(spec, dst, NULL, cells, cells->folded, count, divides(spec, final));
	float_env_restore(env);
}
