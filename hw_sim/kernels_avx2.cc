// Kernels for hosts with AVX2: one instruction multiplies pairs of int16 and adds the two products in each of 8 lanes.
//
// In:   weights packed as int16 [in / 2][out][2], followed by the diagonal; inputs kept as int16 beside the scratchpad.
// Out:  kAvx2Kernels, nullptr where the compiler lacks AVX2.
// Next: kernels.cc tests whether the host has AVX2.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "lds_isa.h"
#include "lds_sim.h"

namespace lds::sim {
namespace {

#include "vectors.inc"

constexpr uint32_t kVectorLanes = 8;

// The products of even and of odd lanes; their bits 31 to 62 are the result (a and b are not both INT32_MIN).
inline Vectors<8>::I32 high_product(Vectors<8>, Vectors<8>::I32 a, Vectors<8>::I32 b) {
  const __m256i half = _mm256_set1_epi64x(int64_t{1} << 30), x = (__m256i)a, y = (__m256i)b;
  const __m256i even = _mm256_srli_epi64(_mm256_add_epi64(_mm256_mul_epi32(x, y), half), 31);
  const __m256i odd = _mm256_slli_epi64(_mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32)), half), 1);
  return (Vectors<8>::I32)_mm256_blend_epi32(even, odd, 0xAA);
}

#include "float_lanes.inc"

inline __m256i load_vector(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }

// For gemm_rows.inc.
struct Dot {
  typedef __m256i Sum;
  typedef __m256i Wgt;
  typedef int16_t X;
  typedef const int16_t *Inputs;                    // read in place: an instruction loads a pair into all lanes
  static constexpr uint32_t kLanes = kVectorLanes;  // sums in a register
  static constexpr uint32_t kSums = 8;              // registers of sums; 2 hold weights, the rest pairs and products
  static constexpr uint32_t kPair = 2;              // int16 that one instruction sums in each lane
  static constexpr uint32_t kGroupBytes = kPair * sizeof(int16_t);
  static constexpr uint32_t kChunk = 8;  // inputs for which the loop is written out
  static constexpr bool kColumnSums = false;

  typedef int16_t Diagonal;
  static constexpr uint32_t kDiagonalLanes = 16;  // int16 in a register

  static size_t weight_bytes(uint32_t block) { return size_t{block} * block * sizeof(int16_t); }
  static const int16_t *inputs(const GemmOperands &t) { return reinterpret_cast<const int16_t *>(t.side); }
  static Sum zero() { return _mm256_setzero_si256(); }
  static Sum add(Sum a, Sum b) { return _mm256_add_epi32(a, b); }
  static Sum load(const int32_t *from) { return load_vector(from); }
  static void store(int32_t *to, Sum sum) { _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), sum); }
  static Wgt load_wgt(const uint8_t *from) { return load_vector(from); }
  static Inputs take_inputs(const int16_t *x) { return x; }
  static Sum dot(Sum sum, Wgt wgt, __m256i pair) {
    Sum all = _mm256_add_epi32(sum, _mm256_madd_epi16(wgt, pair));
    // An empty statement that keeps the order of sums: GCC would compute all products first, more than there are registers.
    __asm__("" : "+x"(all));
    return all;
  }

  template <uint32_t kGroup>
  static __m256i take_group(Inputs x, std::integral_constant<uint32_t, kGroup>) {
    int32_t pair;
    std::memcpy(&pair, x + kGroup * kPair, sizeof pair);
    return _mm256_set1_epi32(pair);
  }
  template <typename Work>
  static void each_group(Work work) {
    work(std::integral_constant<uint32_t, 0>{});
    work(std::integral_constant<uint32_t, 1>{});
    work(std::integral_constant<uint32_t, 2>{});
    work(std::integral_constant<uint32_t, 3>{});
  }
};

#include "gemm_rows.inc"

// Lane by lane, two taps at a time, with their inputs interleaved, because the instruction sums neighbours.
void multiply_diagonals(const GemmOperands &t, const Row *rows, uint32_t row_count, const Tap *taps, uint32_t tap_count, bool overwrite) {
  const size_t row_elements = size_t{t.batch} * t.block, bytes = tile_bytes(t.block);
  const uint32_t pairs = (tap_count + 1) / 2;
  for (uint32_t first = 0; first < t.block; first += Dot::kDiagonalLanes) {
    __m256i low[kMostTaps / 2], high[kMostTaps / 2];
    size_t at[kMostTaps / 2][2];
    for (uint32_t p = 0; p < pairs; ++p) {
      const Tap &a = taps[2 * p], &b = 2 * p + 1 < tap_count ? taps[2 * p + 1] : a;
      const uint8_t *diagonal = t.wgt + diagonal_at(t.block) + first * sizeof(int16_t);
      const __m256i of_a = load_vector(diagonal + a.wgt * bytes);
      const __m256i of_b = &b == &a ? _mm256_setzero_si256() : load_vector(diagonal + b.wgt * bytes);
      low[p] = _mm256_unpacklo_epi16(of_a, of_b);
      high[p] = _mm256_unpackhi_epi16(of_a, of_b);
      at[p][0] = a.src * row_elements;
      at[p][1] = b.src * row_elements;
    }
    for (uint32_t r = 0; r < row_count; ++r)
      for (uint32_t b = 0; b < t.batch; ++b) {
        const int16_t *x = Dot::inputs(t) + rows[r].src * row_elements + size_t{b} * t.block + first;
        __m256i low_sum = Dot::zero(), high_sum = Dot::zero();
        for (uint32_t p = 0; p < pairs; ++p) {
          const __m256i of_a = load_vector(x + at[p][0]), of_b = load_vector(x + at[p][1]);
          low_sum = Dot::dot(low_sum, low[p], _mm256_unpacklo_epi16(of_a, of_b));
          high_sum = Dot::dot(high_sum, high[p], _mm256_unpackhi_epi16(of_a, of_b));
        }
        int32_t *acc = t.acc + rows[r].dst * row_elements + size_t{b} * t.block + first;
        __m256i begin = _mm256_permute2x128_si256(low_sum, high_sum, 0x20), end = _mm256_permute2x128_si256(low_sum, high_sum, 0x31);
        if (!overwrite) {
          begin = Dot::add(begin, Dot::load(acc));
          end = Dot::add(end, Dot::load(acc + Dot::kLanes));
        }
        Dot::store(acc, begin);
        Dot::store(acc + Dot::kLanes, end);
      }
  }
}

// --- packing at LOAD --------------------------------------------------------------------------------
// A transposition of pairs, 8 outputs by 8 inputs at a time.
inline void pack_square(uint32_t block, const int8_t *tile, uint8_t *packed) {
  const auto row = [&](uint32_t o) { return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(tile + size_t{o} * block)); };
  __m128i four[4];  // outputs 2n and 2n + 1, pairs of bytes interleaved
  for (uint32_t n = 0; n < 4; ++n) four[n] = _mm_unpacklo_epi16(row(2 * n), row(2 * n + 1));
  const __m128i low0 = _mm_unpacklo_epi32(four[0], four[1]), high0 = _mm_unpackhi_epi32(four[0], four[1]);
  const __m128i low1 = _mm_unpacklo_epi32(four[2], four[3]), high1 = _mm_unpackhi_epi32(four[2], four[3]);
  const __m128i pair[4] = {_mm_unpacklo_epi64(low0, low1), _mm_unpackhi_epi64(low0, low1), _mm_unpacklo_epi64(high0, high1),
                           _mm_unpackhi_epi64(high0, high1)};
  for (uint32_t n = 0; n < 4; ++n)
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(packed + size_t{n} * block * Dot::kGroupBytes), _mm256_cvtepi8_epi16(pair[n]));
}

// kBlock: a constant, or 0 for any.
template <uint32_t kBlock>
void pack_with(uint32_t any_block, const int8_t *tile, uint8_t *packed) {
  constexpr uint32_t kSquare = 8;
  const uint32_t block = kBlock == 0 ? any_block : kBlock;
  for (uint32_t o = 0; o < block; o += kSquare)
    for (uint32_t k = 0; k < block; k += kSquare)
      pack_square(block, tile + size_t{o} * block + k, packed + (size_t{k / Dot::kPair} * block + o) * Dot::kGroupBytes);
  pack_diagonal(block, tile, packed, is_diagonal(block, tile));
}

void pack_wgt(uint32_t block, const int8_t *tile, uint8_t *packed) {
  return block == 16 ? pack_with<16>(block, tile, packed) : pack_with<0>(block, tile, packed);
}

void widen_inp(uint32_t block, const int8_t *rows, uint8_t *side, size_t count) {
  for (size_t k = 0; k < count * block; k += 8) {
    const __m128i some = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(rows + k));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(side + k * sizeof(int16_t)), _mm_cvtepi8_epi16(some));
  }
}

size_t side_bytes(uint32_t block) { return block * sizeof(int16_t); }

void gemm(const Loops &loops, const GemmOperands &t, bool overwrite) {
  if (t.block == 8) return gemm_with<8, 1>(loops, t, overwrite);
  if (t.block == 16) return gemm_with<16, 2>(loops, t, overwrite);
  gemm_with<0, 2>(loops, t, overwrite);
}

constexpr Kernels kKernels = {LDS_SIM_KERNELS_AVX2, 8,   Dot::kPair, 2,          tile_bytes, side_bytes, pack_wgt, gemm,
                              gemm_reset,           alu, rq,         take_bytes, widen_inp,  float_gemm, float_alu};

}  // namespace

const Kernels *const kAvx2Kernels = &kKernels;

}  // namespace lds::sim

#else

namespace lds::sim {
const Kernels *const kAvx2Kernels = nullptr;
}  // namespace lds::sim

#endif
