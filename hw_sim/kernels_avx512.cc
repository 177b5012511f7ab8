// Kernels for hosts with AVX-512 VNNI: a dot product of four bytes in each of 16 lanes, one instruction.
//
// In:   weights packed as uint8 [in / 4][out][4], 128 added, because the instruction multiplies unsigned by signed bytes.
// Out:  kAvx512Kernels, nullptr where the compiler lacks it.
// Next: -128 times the sum over the input row (prepare_inp) takes the 128 away again.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "lds_isa.h"
#include "lds_sim.h"

namespace lds::sim {
namespace {

#include "vectors.inc"

constexpr uint32_t kVectorLanes = 16;

// The products of even and of odd lanes; their bits 31 to 62 are the result.
inline Vectors<16>::I32 high_product(Vectors<16>, Vectors<16>::I32 a, Vectors<16>::I32 b) {
  const __m512i half = _mm512_set1_epi64(int64_t{1} << 30), x = (__m512i)a, y = (__m512i)b;
  const __m512i even = _mm512_srli_epi64(_mm512_add_epi64(_mm512_mul_epi32(x, y), half), 31);
  const __m512i odd = _mm512_slli_epi64(_mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32)), half), 1);
  const __m512i high = _mm512_mask_blend_epi32(0xAAAA, even, odd);
  // Only the product that leaves 32 bits looks like the smallest number.
  const __mmask16 over = _mm512_cmpeq_epi32_mask(high, _mm512_set1_epi32(INT32_MIN));
  return (Vectors<16>::I32)_mm512_mask_mov_epi32(high, over, _mm512_set1_epi32(INT32_MAX));
}

#include "float_lanes.inc"

// For gemm_rows.inc.
struct Dot {
  typedef __m512i Sum;
  typedef __m512i Wgt;
  typedef int8_t X;
  typedef const int8_t *Inputs;  // read where they stand: an instruction takes four bytes for all lanes from memory
  static constexpr uint32_t kLanes = kVectorLanes;
  static constexpr uint32_t kRows = 8;        // 16 of the 32 registers hold sums where two vectors of outputs are done at a time
  static constexpr uint32_t kGroupBytes = 4;  // that one instruction sums in each lane
  static constexpr uint32_t kChunk = 16;
  static constexpr bool kRowSums = true;
  static constexpr bool kDiagonals = false;  // four instructions do a tile
  typedef int8_t Diagonal;
  static constexpr uint32_t kDiagonalLanes = 0;

  static size_t weight_bytes(uint32_t block) { return size_t{block} * block; }
  static const int8_t *inputs(const GemmOperands &t) { return t.inp; }
  static int32_t row_sum(const GemmOperands &t, size_t row) {
    int32_t sum;
    std::memcpy(&sum, t.side + row * sizeof sum, sizeof sum);
    return sum;
  }
  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum every(int32_t value) { return _mm512_set1_epi32(value); }
  static Sum add(Sum a, Sum b) { return _mm512_add_epi32(a, b); }
  static Sum load(const int32_t *from) { return _mm512_loadu_si512(from); }
  static void store(int32_t *to, Sum sum) { _mm512_storeu_si512(to, sum); }
  static Wgt load_wgt(const uint8_t *from) { return _mm512_loadu_si512(from); }
  static Inputs take_inputs(const int8_t *x) { return x; }
  static Sum dot(Sum sum, Wgt wgt, __m512i four) { return _mm512_dpbusd_epi32(sum, wgt, four); }

  template <uint32_t kGroup>
  static __m512i take_group(Inputs x, std::integral_constant<uint32_t, kGroup>) {
    int32_t four;
    std::memcpy(&four, x + kGroup * kGroupBytes, sizeof four);
    return _mm512_set1_epi32(four);
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

void multiply_diagonals(const GemmOperands &, const Row *, uint32_t, const Tap *, uint32_t, bool) {}  // no tile is taken for one

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
  for (uint32_t o = 0; o < block; o += Dot::kLanes)
    for (uint32_t k = 0; k < block; k += 16) {
      const int8_t *row = tile + o * block + k;
      const __m512i a = four_rows(row, block), b = four_rows(row + 4 * block, block);
      const __m512i c = four_rows(row + 8 * block, block), d = four_rows(row + 12 * block, block);
      const __m512i ab01 = _mm512_permutex2var_epi32(a, first, b), ab23 = _mm512_permutex2var_epi32(a, second, b);
      const __m512i cd01 = _mm512_permutex2var_epi32(c, first, d), cd23 = _mm512_permutex2var_epi32(c, second, d);
      uint8_t *to = packed + (size_t{k / Dot::kGroupBytes} * block + o) * Dot::kGroupBytes;
      const size_t next = size_t{block} * Dot::kGroupBytes;
      _mm512_store_si512(to, _mm512_xor_si512(_mm512_shuffle_i64x2(ab01, cd01, 0x44), bias));
      _mm512_store_si512(to + next, _mm512_xor_si512(_mm512_shuffle_i64x2(ab01, cd01, 0xEE), bias));
      _mm512_store_si512(to + 2 * next, _mm512_xor_si512(_mm512_shuffle_i64x2(ab23, cd23, 0x44), bias));
      _mm512_store_si512(to + 3 * next, _mm512_xor_si512(_mm512_shuffle_i64x2(ab23, cd23, 0xEE), bias));
    }
}

// -128 times the sum of each row.
void prepare_inp(uint32_t block, const int8_t *rows, uint8_t *side, size_t count) {
  const __m128i ones = _mm_set1_epi8(1);
  for (size_t r = 0; r < count; ++r) {
    __m128i sum = _mm_setzero_si128();
    for (uint32_t k = 0; k < block; k += 16)
      sum = _mm_dpbusd_epi32(sum, ones, _mm_loadu_si128(reinterpret_cast<const __m128i *>(rows + r * block + k)));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(2, 3, 0, 1)));
    const int32_t all = -128 * _mm_cvtsi128_si32(sum);
    std::memcpy(side + r * sizeof all, &all, sizeof all);
  }
}

size_t side_bytes(uint32_t) { return sizeof(int32_t); }

void gemm(const Loops &loops, const GemmOperands &t, bool overwrite) {
  if (t.block == 16) return gemm_with<16, 1>(loops, t, overwrite);
  gemm_with<0, 2>(loops, t, overwrite);
}

constexpr Kernels kKernels = {LDS_SIM_KERNELS_AVX512,
                              16,
                              Dot::kGroupBytes,
                              1,
                              128,
                              tile_bytes,
                              side_bytes,
                              pack_wgt,
                              gemm,
                              gemm_reset,
                              alu,
                              rq,
                              prepare_inp,
                              float_gemm,
                              float_alu};

}  // namespace

const Kernels *const kAvx512Kernels = &kKernels;

}  // namespace lds::sim

#else

namespace lds::sim {
const Kernels *const kAvx512Kernels = nullptr;
}  // namespace lds::sim

#endif
