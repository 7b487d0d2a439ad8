/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matrix products on a GPU. All matrices are float32 by rows. A block makes one square of the result; slices of both
 * factors go through shared memory, as they lie in global memory, while the last slice is multiplied. What differs
 * between products of float32 and those of bfloat16 by tensor cores is a type.
 */
#ifndef TRAIN_GEMM_CUH
#define TRAIN_GEMM_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

enum { GEMM_TILE = 128, GEMM_THREADS = 256 };

/* A factor: its slice of `depth` along the sum and GEMM_TILE across it, element (across, along). BY_DEPTH: a row of
 * memory is one step along the sum; otherwise it is one step across. */
template <class P, bool BY_DEPTH> struct gemm_slice {
	static constexpr int ROWS = BY_DEPTH ? (int)P::DEPTH : (int)GEMM_TILE;
	static constexpr int COLUMNS = BY_DEPTH ? (int)GEMM_TILE : (int)P::DEPTH;
	static constexpr int STRIDE = COLUMNS + P::PAD;
	static constexpr int VECTORS = ROWS * COLUMNS / 4 / GEMM_THREADS; /* float4 a thread */
	typename P::element at[ROWS * STRIDE];
};

/* A thread's part of the next slice, on its way from global memory. */
template <class Slice> struct gemm_fetched {
	float4 v[Slice::VECTORS];
};

/* across: where the block's square begins; along: where the slice does. */
template <class P, bool BY_DEPTH>
__device__ static void gemm_fetch(gemm_fetched<gemm_slice<P, BY_DEPTH>> *fetched, const float *matrix, size_t width,
				  size_t across, size_t along)
{
	typedef gemm_slice<P, BY_DEPTH> slice;
	const float *first = matrix + (BY_DEPTH ? along * width + across : across * width + along);
#pragma unroll
	for (int i = 0; i < slice::VECTORS; i++) {
		int element = (i * GEMM_THREADS + (int)threadIdx.x) * 4;
		size_t row = element / slice::COLUMNS, column = element % slice::COLUMNS;
		fetched->v[i] = *(const float4 *)(first + row * width + column);
	}
}

template <class P, bool BY_DEPTH>
__device__ static void gemm_keep(gemm_slice<P, BY_DEPTH> *slice, const gemm_fetched<gemm_slice<P, BY_DEPTH>> *fetched)
{
#pragma unroll
	for (int i = 0; i < slice->VECTORS; i++) {
		int element = (i * GEMM_THREADS + (int)threadIdx.x) * 4;
		int row = element / slice->COLUMNS, column = element % slice->COLUMNS;
		P::put(slice->at + row * slice->STRIDE + column, fetched->v[i]);
	}
}

/* Products of float32: a thread has 8 x 8 elements of the square, 16 apart. */
struct gemm_float32 {
	typedef float element;
	enum { DEPTH = 16, PAD = 1, EACH = 8, APART = GEMM_TILE / EACH };

	float sum[EACH][EACH];

	__device__ static void put(float *at, float4 v)
	{
		at[0] = v.x;
		at[1] = v.y;
		at[2] = v.z;
		at[3] = v.w;
	}

	__device__ void clear()
	{
		for (int i = 0; i < EACH; i++)
			for (int j = 0; j < EACH; j++)
				sum[i][j] = 0;
	}

	template <bool BY_DEPTH>
	__device__ static void take(float *some, const gemm_slice<gemm_float32, BY_DEPTH> *slice, int first, int k)
	{
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			int across = first + i * APART;
			some[i] = slice->at[BY_DEPTH ? k * slice->STRIDE + across : across * slice->STRIDE + k];
		}
	}

	template <bool A_BY_DEPTH, bool B_BY_DEPTH>
	__device__ void add(const gemm_slice<gemm_float32, A_BY_DEPTH> *a, const gemm_slice<gemm_float32, B_BY_DEPTH> *b)
	{
#pragma unroll
		for (int k = 0; k < DEPTH; k++) {
			float left[EACH], right[EACH];
			take(left, a, threadIdx.x / APART, k);
			take(right, b, threadIdx.x % APART, k);
#pragma unroll
			for (int i = 0; i < EACH; i++)
#pragma unroll
				for (int j = 0; j < EACH; j++)
					sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
		}
	}

	__device__ void store(float *square, size_t width) const
	{
#pragma unroll
		for (int i = 0; i < EACH; i++)
#pragma unroll
			for (int j = 0; j < EACH; j++)
				square[(threadIdx.x / APART + i * APART) * width + threadIdx.x % APART + j * APART] =
					sum[i][j];
	}
};

/* How a slice's element (across, along) of the left factor, or (along, across) of the right one, lies in memory. */
template <bool BY_DEPTH> struct gemm_order {
	typedef nvcuda::wmma::row_major left;
	typedef nvcuda::wmma::col_major right;
};

template <> struct gemm_order<true> {
	typedef nvcuda::wmma::col_major left;
	typedef nvcuda::wmma::row_major right;
};

/* Products of bfloat16 by tensor cores: a warp has 64 x 32 elements of the square, in pieces of 16 x 16. */
struct gemm_bfloat16 {
	typedef __nv_bfloat16 element;
	enum { DEPTH = 32, PAD = 8, PIECE = 16, DOWN = 4, RIGHT = 2, WARPS_RIGHT = GEMM_TILE / (RIGHT * PIECE) };

	nvcuda::wmma::fragment<nvcuda::wmma::accumulator, PIECE, PIECE, PIECE, float> sum[DOWN][RIGHT];

	__device__ static int down()
	{
		return (int)threadIdx.x / 32 / WARPS_RIGHT * DOWN * PIECE;
	}

	__device__ static int right()
	{
		return (int)threadIdx.x / 32 % WARPS_RIGHT * RIGHT * PIECE;
	}

	__device__ static void put(__nv_bfloat16 *at, float4 v)
	{
		((__nv_bfloat162 *)at)[0] = __floats2bfloat162_rn(v.x, v.y);
		((__nv_bfloat162 *)at)[1] = __floats2bfloat162_rn(v.z, v.w);
	}

	__device__ void clear()
	{
		for (int i = 0; i < DOWN; i++)
			for (int j = 0; j < RIGHT; j++)
				nvcuda::wmma::fill_fragment(sum[i][j], 0.0f);
	}

	template <class Fragment, bool BY_DEPTH>
	__device__ static void load(Fragment &piece, const gemm_slice<gemm_bfloat16, BY_DEPTH> *slice, int across, int k)
	{
		const __nv_bfloat16 *at = slice->at + (BY_DEPTH ? k * slice->STRIDE + across : across * slice->STRIDE + k);
		nvcuda::wmma::load_matrix_sync(piece, at, slice->STRIDE);
	}

	template <bool A_BY_DEPTH, bool B_BY_DEPTH>
	__device__ void add(const gemm_slice<gemm_bfloat16, A_BY_DEPTH> *a,
			    const gemm_slice<gemm_bfloat16, B_BY_DEPTH> *b)
	{
		namespace wmma = nvcuda::wmma;
		typedef typename gemm_order<A_BY_DEPTH>::left a_order;
		typedef typename gemm_order<B_BY_DEPTH>::right b_order;
#pragma unroll
		for (int k = 0; k < DEPTH; k += PIECE) {
			wmma::fragment<wmma::matrix_a, PIECE, PIECE, PIECE, __nv_bfloat16, a_order> a_piece[DOWN];
			wmma::fragment<wmma::matrix_b, PIECE, PIECE, PIECE, __nv_bfloat16, b_order> b_piece[RIGHT];
#pragma unroll
			for (int i = 0; i < DOWN; i++)
				load(a_piece[i], a, down() + i * PIECE, k);
#pragma unroll
			for (int j = 0; j < RIGHT; j++)
				load(b_piece[j], b, right() + j * PIECE, k);
#pragma unroll
			for (int i = 0; i < DOWN; i++)
#pragma unroll
				for (int j = 0; j < RIGHT; j++)
					wmma::mma_sync(sum[i][j], a_piece[i], b_piece[j], sum[i][j]);
		}
	}

	__device__ void store(float *square, size_t width) const
	{
		for (int i = 0; i < DOWN; i++)
			for (int j = 0; j < RIGHT; j++)
				nvcuda::wmma::store_matrix_sync(square + (down() + i * PIECE) * width + right() + j * PIECE,
								sum[i][j], (unsigned)width, nvcuda::wmma::mem_row_major);
	}
};

/* out = A x B, all by rows of width elements; the sum has depth terms. A is (across, along) as a matrix, or turned
 * when A_BY_DEPTH; B is (along, across) when B_BY_DEPTH, or turned. Grid: squares to the right, squares down. */
template <class P, bool A_BY_DEPTH, bool B_BY_DEPTH>
__global__ void __launch_bounds__(GEMM_THREADS) gemm(float *out, const float *a, const float *b, size_t width, int depth)
{
	typedef gemm_slice<P, A_BY_DEPTH> a_slice;
	typedef gemm_slice<P, B_BY_DEPTH> b_slice;
	__shared__ __align__(32) a_slice a_now[2];
	__shared__ __align__(32) b_slice b_now[2];
	gemm_fetched<a_slice> a_next;
	gemm_fetched<b_slice> b_next;
	size_t down = (size_t)blockIdx.y * GEMM_TILE, right = (size_t)blockIdx.x * GEMM_TILE;
	P products;
	products.clear();
	for (int along = 0, slice = 0; along <= depth; along += P::DEPTH, slice ^= 1) {
		if (along < depth) {
			gemm_fetch<P, A_BY_DEPTH>(&a_next, a, width, down, along);
			gemm_fetch<P, B_BY_DEPTH>(&b_next, b, width, right, along);
		}
		if (along > 0)
			products.add(&a_now[slice ^ 1], &b_now[slice ^ 1]);
		if (along < depth) {
			gemm_keep<P, A_BY_DEPTH>(&a_now[slice], &a_next);
			gemm_keep<P, B_BY_DEPTH>(&b_now[slice], &b_next);
		}
		__syncthreads();
	}
	products.store(out + down * width + right, width);
}

#endif
