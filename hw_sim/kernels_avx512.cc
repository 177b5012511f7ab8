// Kernels for hosts with AVX-512 VNNI: a dot product of four bytes in each of 16 lanes, one instruction.
//
// In:   weights packed as uint8 [in / 4][out][4], 128 added, because the instruction multiplies unsigned by signed bytes.
// Out:  kAvx512Kernels, nullptr where the compiler lacks it.
// Next: a sum starts at -128 times the sum over the input row (sum_inp), which takes the 128 away again.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include <immintrin.h>

#include <cstring>

#include "lds_isa.h"
#include "lds_sim.h"

namespace lds::sim {
namespace {

constexpr uint32_t kVectorLanes = 16;
#include "float_lanes.inc"

constexpr uint32_t kLanes = kVectorLanes;
constexpr uint32_t kGroup = 4;  // bytes that one instruction sums in each lane

// Four rows of 16 bytes.
inline __m512i four_rows(const int8_t *row, uint32_t stride) {
  const auto load = [](const int8_t *at) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at)); };
  const __m512i two = _mm512_inserti32x4(_mm512_castsi128_si512(load(row)), load(row + stride), 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(two, load(row + 2 * stride), 2), load(row + 3 * stride), 3);
}

// A transposition of groups of four bytes, 16 outputs by 16 inputs at a time.
void pack_wgt(uint32_t block, const int8_t *tile, uint8_t *packed) {
  const __m512i bias = _mm512_set1_epi8(-128);
  // Of eight rows of four groups each: groups 0 and 1, groups 2 and 3.
  const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
  for (uint32_t o = 0; o < block; o += kLanes)
    for (uint32_t k = 0; k < block; k += 16) {
      const int8_t *row = tile + o * block + k;
      const __m512i a = four_rows(row, block), b = four_rows(row + 4 * block, block);
      const __m512i c = four_rows(row + 8 * block, block), d = four_rows(row + 12 * block, block);
      const __m512i ab01 = _mm512_permutex2var_epi32(a, first, b), ab23 = _mm512_permutex2var_epi32(a, second, b);
      const __m512i cd01 = _mm512_permutex2var_epi32(c, first, d), cd23 = _mm512_permutex2var_epi32(c, second, d);
      uint8_t *to = packed + (size_t{k / kGroup} * block + o) * kGroup;
      const size_t next = size_t{block} * kGroup;
      _mm512_store_si512(to, _mm512_xor_si512(_mm512_shuffle_i64x2(ab01, cd01, 0x44), bias));
      _mm512_store_si512(to + next, _mm512_xor_si512(_mm512_shuffle_i64x2(ab01, cd01, 0xEE), bias));
      _mm512_store_si512(to + 2 * next, _mm512_xor_si512(_mm512_shuffle_i64x2(ab23, cd23, 0x44), bias));
      _mm512_store_si512(to + 3 * next, _mm512_xor_si512(_mm512_shuffle_i64x2(ab23, cd23, 0xEE), bias));
    }
}

void sum_inp(uint32_t block, const int8_t *rows, int32_t *sums, size_t count) {
  const __m128i ones = _mm_set1_epi8(1);
  for (size_t r = 0; r < count; ++r) {
    __m128i sum = _mm_setzero_si128();
    for (uint32_t k = 0; k < block; k += 16)
      sum = _mm_dpbusd_epi32(sum, ones, _mm_loadu_si128(reinterpret_cast<const __m128i *>(rows + r * block + k)));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(2, 3, 0, 1)));
    sums[r] = -128 * _mm_cvtsi128_si32(sum);
  }
}

inline __m512i four_bytes(const int8_t *x) {
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

inline void put(int32_t *acc, __m512i sum, bool overwrite) {
  _mm512_store_si512(acc, overwrite ? sum : _mm512_add_epi32(sum, _mm512_load_si512(acc)));
}

// One row of an input tile by a weight tile in registers.
template <uint32_t kBlock, bool kOverwrite>
inline void multiply_row(const int8_t *x, int32_t start, const __m512i (&w)[kBlock / kLanes][kBlock / kGroup], int32_t *acc) {
  constexpr uint32_t kParts = kBlock / kLanes;
  __m512i sum[kParts];
  for (uint32_t p = 0; p < kParts; ++p) sum[p] = _mm512_set1_epi32(start);
  for (uint32_t g = 0; g < kBlock / kGroup; ++g) {
    const __m512i four = four_bytes(x + g * kGroup);
    for (uint32_t p = 0; p < kParts; ++p) sum[p] = _mm512_dpbusd_epi32(sum[p], w[p][g], four);
  }
  for (uint32_t p = 0; p < kParts; ++p) put(acc + p * kLanes, sum[p], kOverwrite);
}

// A weight tile of 16x16 or 32x32 in registers, kept from step to step while it stays the same. kBatch 0: any.
template <uint32_t kBlock, uint32_t kBatch, bool kOverwrite>
void gemm_blocks(const Loops &loops, const GemmOperands &t) {
  const Loops l = loops;  // copies: stores to acc cannot change them
  const int8_t *const inp = t.inp;
  const int32_t *const starts = t.inp_sum;
  const uint8_t *const wgt = t.wgt;
  int32_t *const acc = t.acc;
  const uint32_t batch = kBatch == 0 ? t.batch : kBatch;
  __m512i w[kBlock / kLanes][kBlock / kGroup] = {};
  size_t held = ~size_t{0};
  for (uint32_t i = 0; i < l.iter_out; ++i)
    for (uint32_t j = 0; j < l.iter_in; ++j) {
      const size_t dst = size_t{i} * l.dst_out + size_t{j} * l.dst_in;
      const size_t src = size_t{i} * l.src_out + size_t{j} * l.src_in;
      const size_t tile = size_t{i} * l.wgt_out + size_t{j} * l.wgt_in;
      for (const Uop *uop = l.uops; uop != l.uops + l.count; ++uop) {
        if (tile + uop->wgt != held) {
          held = tile + uop->wgt;
          for (uint32_t g = 0; g < kBlock / kGroup; ++g)
            for (uint32_t p = 0; p < kBlock / kLanes; ++p)
              w[p][g] = _mm512_load_si512(wgt + held * (kBlock * kBlock) + (g * kBlock + p * kLanes) * kGroup);
        }
        const size_t row = (src + uop->src) * batch, out = (dst + uop->dst) * batch;
        for (uint32_t b = 0; b < batch; ++b)
          multiply_row<kBlock, kOverwrite>(inp + (row + b) * kBlock, starts[row + b], w, acc + (out + b) * kBlock);
      }
    }
}

// Any larger block, without keeping weights.
void gemm_large(const Loops &loops, const GemmOperands &t, bool overwrite) {
  const size_t wgt_bytes = size_t{t.block} * t.block;
  for (uint32_t i = 0; i < loops.iter_out; ++i)
    for (uint32_t j = 0; j < loops.iter_in; ++j)
      for (uint32_t u = 0; u < loops.count; ++u) {
        const Uop uop = loops.uops[u];
        const size_t d = uop.dst + size_t{i} * loops.dst_out + size_t{j} * loops.dst_in;
        const size_t s = uop.src + size_t{i} * loops.src_out + size_t{j} * loops.src_in;
        const size_t w = uop.wgt + size_t{i} * loops.wgt_out + size_t{j} * loops.wgt_in;
        for (uint32_t b = 0; b < t.batch; ++b) {
          const size_t row = s * t.batch + b;
          int32_t *acc = t.acc + (d * t.batch + b) * t.block;
          for (uint32_t o = 0; o < t.block; o += kLanes) {
            __m512i sum = _mm512_set1_epi32(t.inp_sum[row]);
            for (uint32_t k = 0; k < t.block; k += kGroup) {
              const __m512i part = _mm512_load_si512(t.wgt + w * wgt_bytes + (k / kGroup * t.block + o) * kGroup);
              sum = _mm512_dpbusd_epi32(sum, part, four_bytes(t.inp + row * t.block + k));
            }
            put(acc + o, sum, overwrite);
          }
        }
      }
}

template <uint32_t kBlock, bool kOverwrite>
void gemm_batches(const Loops &loops, const GemmOperands &t) {
  return t.batch == 1 ? gemm_blocks<kBlock, 1, kOverwrite>(loops, t) : gemm_blocks<kBlock, 0, kOverwrite>(loops, t);
}

void gemm(const Loops &loops, const GemmOperands &t, bool overwrite) {
  if (t.block == 16) return overwrite ? gemm_batches<16, true>(loops, t) : gemm_batches<16, false>(loops, t);
  if (t.block == 32) return overwrite ? gemm_batches<32, true>(loops, t) : gemm_batches<32, false>(loops, t);
  gemm_large(loops, t, overwrite);
}

constexpr Kernels kKernels = {
    LDS_SIM_KERNELS_AVX512, 16, kGroup, 1, 128, pack_wgt, gemm, gemm_reset, alu, rq, sum_inp, float_gemm, float_alu};

}  // namespace

const Kernels *const kAvx512Kernels = &kKernels;

}  // namespace lds::sim

#else

namespace lds::sim {
const Kernels *const kAvx512Kernels = nullptr;
}  // namespace lds::sim

#endif
