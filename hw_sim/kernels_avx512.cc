// Kernels for hosts with AVX-512 VNNI: one instruction computes a dot product of four bytes in each of 16 lanes.
//
// In:   weights packed as int8 [in / 4][out][4]; inputs kept as uint8 beside the scratchpad, with 128 added, because the instruction
//       multiplies unsigned by signed bytes.
// Out:  kAvx512Kernels, nullptr where the compiler lacks AVX-512 VNNI.
// Next: kernels.cc tests whether the host has it. -128 times the sum of each output's weights follows a tile, to cancel the added 128.
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

// The products of even and of odd lanes; their bits 31 to 62 are the result (a and b are not both INT32_MIN).
inline Vectors<16>::I32 high_product(Vectors<16>, Vectors<16>::I32 a, Vectors<16>::I32 b) {
  const __m512i half = _mm512_set1_epi64(int64_t{1} << 30), x = (__m512i)a, y = (__m512i)b;
  const __m512i even = _mm512_srli_epi64(_mm512_add_epi64(_mm512_mul_epi32(x, y), half), 31);
  const __m512i odd = _mm512_slli_epi64(_mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32)), half), 1);
  return (Vectors<16>::I32)_mm512_mask_blend_epi32(0xAAAA, even, odd);
}

#include "float_lanes.inc"

// For gemm_rows.inc.
struct Dot {
  typedef __m512i Sum;
  typedef __m512i Wgt;
  typedef uint8_t X;
  typedef const uint8_t *Inputs;  // read in place: an instruction broadcasts four bytes from memory to all lanes
  static constexpr uint32_t kLanes = kVectorLanes;
  static constexpr uint32_t kSums = 16;       // of 32 registers: a sum takes four cycles, and a processor starts two in each cycle
  static constexpr uint32_t kGroupBytes = 4;  // bytes that one instruction sums in each lane
  static constexpr uint32_t kChunk = 16;
  static constexpr bool kColumnSums = true;
  typedef int8_t Diagonal;
  static constexpr uint32_t kDiagonalLanes = 16;

  static size_t weight_bytes(uint32_t block) { return size_t{block} * block; }
  static const uint8_t *inputs(const GemmOperands &t) { return t.side; }
  static Sum zero() {
    Sum none = _mm512_setzero_si512();
    __asm__("" : "+v"(none));  // an empty statement, without which GCC would clear an array of them in memory
    return none;
  }
  static Sum add(Sum a, Sum b) { return _mm512_add_epi32(a, b); }
  static Sum load(const int32_t *from) { return _mm512_loadu_si512(from); }
  static void store(int32_t *to, Sum sum) { _mm512_storeu_si512(to, sum); }
  static Wgt load_wgt(const uint8_t *from) { return _mm512_loadu_si512(from); }
  static Inputs take_inputs(const uint8_t *x) { return x; }
  static Sum dot(Sum sum, Wgt wgt, __m512i four) { return _mm512_dpbusd_epi32(sum, four, wgt); }

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

// Four rows of 16 bytes.
inline __m512i four_rows(const void *first, const void *second, const void *third, const void *fourth) {
  const auto load = [](const void *at) { return _mm_loadu_si128(static_cast<const __m128i *>(at)); };
  const __m512i two = _mm512_inserti32x4(_mm512_castsi128_si512(load(first)), load(second), 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(two, load(third), 2), load(fourth), 3);
}

inline __m512i four_rows(const int8_t *row, uint32_t stride) {
  return stride == 16 ? _mm512_loadu_si512(row) : four_rows(row, row + stride, row + 2 * stride, row + 3 * stride);
}

// Each 16 bytes hold the bytes of four taps interleaved, for four channels in each of four vectors.
struct Mixed {
  __m512i channels[4];

  explicit Mixed(const __m512i *taps) {
    const __m512i low01 = _mm512_unpacklo_epi8(taps[0], taps[1]), low23 = _mm512_unpacklo_epi8(taps[2], taps[3]);
    const __m512i high01 = _mm512_unpackhi_epi8(taps[0], taps[1]), high23 = _mm512_unpackhi_epi8(taps[2], taps[3]);
    channels[0] = _mm512_unpacklo_epi16(low01, low23);
    channels[1] = _mm512_unpackhi_epi16(low01, low23);
    channels[2] = _mm512_unpacklo_epi16(high01, high23);
    channels[3] = _mm512_unpackhi_epi16(high01, high23);
  }
};

// Lane by lane, four taps and four rows at a time: a vector has four channels of each row.
void multiply_diagonals(const GemmOperands &t, const Row *rows, uint32_t row_count, const Tap *taps, uint32_t tap_count, bool overwrite) {
  const size_t row_elements = size_t{t.batch} * t.block, bytes = tile_bytes(t.block);
  const uint32_t groups = (tap_count + 3) / 4;
  for (uint32_t first = 0; first < t.block; first += Dot::kDiagonalLanes) {
    __m512i weights[kMostTaps / 4][4], sums = _mm512_setzero_si512();
    size_t at[kMostTaps];
    for (uint32_t g = 0; g < groups; ++g) {
      __m512i diagonals[4];
      for (uint32_t k = 0; k < 4; ++k) {
        const Tap &tap = taps[4 * g + k < tap_count ? 4 * g + k : 0];
        const uint8_t *const tile = t.wgt + tap.wgt * bytes;
        at[4 * g + k] = tap.src * row_elements;
        diagonals[k] = _mm512_setzero_si512();
        if (4 * g + k >= tap_count) continue;
        diagonals[k] = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i *>(tile + diagonal_at(t.block) + first)));
        sums = Dot::add(sums, Dot::load(column_sums(t.block, tile) + first));
      }
      const Mixed mixed(diagonals);
      for (uint32_t j = 0; j < 4; ++j) weights[g][j] = mixed.channels[j];
    }
    const __m512i start[4] = {_mm512_shuffle_i32x4(sums, sums, 0x00), _mm512_shuffle_i32x4(sums, sums, 0x55),
                              _mm512_shuffle_i32x4(sums, sums, 0xAA), _mm512_shuffle_i32x4(sums, sums, 0xFF)};
    for (uint32_t b = 0; b < t.batch; ++b)
      for (uint32_t r = 0; r < row_count; r += 4) {
        const size_t own = size_t{b} * t.block + first;
        const uint8_t *x[4];
        for (uint32_t k = 0; k < 4; ++k) x[k] = Dot::inputs(t) + rows[r + k < row_count ? r + k : r].src * row_elements + own;
        const bool together = x[1] == x[0] + 16 && x[2] == x[0] + 32 && x[3] == x[0] + 48;
        __m512i sum[4] = {start[0], start[1], start[2], start[3]};
        for (uint32_t g = 0; g < groups; ++g) {
          __m512i inputs[4];
          for (uint32_t k = 0; k < 4; ++k) {
            const size_t tap = at[4 * g + k];
            inputs[k] = together ? _mm512_loadu_si512(x[0] + tap) : four_rows(x[0] + tap, x[1] + tap, x[2] + tap, x[3] + tap);
          }
          const Mixed mixed(inputs);
          for (uint32_t j = 0; j < 4; ++j) sum[j] = _mm512_dpbusd_epi32(sum[j], mixed.channels[j], weights[g][j]);
        }
        // Four channels of four rows each become all channels of a row.
        const __m512i low01 = _mm512_shuffle_i32x4(sum[0], sum[1], 0x44), high01 = _mm512_shuffle_i32x4(sum[0], sum[1], 0xEE);
        const __m512i low23 = _mm512_shuffle_i32x4(sum[2], sum[3], 0x44), high23 = _mm512_shuffle_i32x4(sum[2], sum[3], 0xEE);
        const __m512i whole[4] = {_mm512_shuffle_i32x4(low01, low23, 0x88), _mm512_shuffle_i32x4(low01, low23, 0xDD),
                                  _mm512_shuffle_i32x4(high01, high23, 0x88), _mm512_shuffle_i32x4(high01, high23, 0xDD)};
        for (uint32_t k = 0; k < 4 && r + k < row_count; ++k) {
          int32_t *acc = t.acc + rows[r + k].dst * row_elements + own;
          Dot::store(acc, overwrite ? whole[k] : Dot::add(whole[k], Dot::load(acc)));
        }
      }
  }
}

// A transposition of groups of four bytes, 16 outputs by 16 inputs at a time, followed by -128 times the sum of each output's weights.
void pack_wgt(uint32_t block, const int8_t *tile, uint8_t *packed) {
  const __m512i ones = _mm512_set1_epi8(1);
  // Eight rows of four groups each: groups 0 and 1, groups 2 and 3.
  const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
  __mmask64 beside = 0;  // the diagonal
  for (uint32_t o = 0; o < block; o += Dot::kLanes) {
    __m512i sums = _mm512_setzero_si512();
    for (uint32_t k = 0; k < block; k += 16) {
      const int8_t *row = tile + o * block + k;
      const __m512i a = four_rows(row, block), b = four_rows(row + 4 * block, block);
      const __m512i c = four_rows(row + 8 * block, block), d = four_rows(row + 12 * block, block);
      // Rows are 16 bytes: the diagonal is every 17th byte.
      const uint64_t off = o == k ? ~uint64_t{0x0008000400020001} : ~uint64_t{0};
      beside |= _mm512_mask_test_epi8_mask(off, a, a) | _mm512_mask_test_epi8_mask(o == k ? off << 4 | 15 : off, b, b);
      beside |= _mm512_mask_test_epi8_mask(o == k ? off << 8 | 255 : off, c, c) |
                _mm512_mask_test_epi8_mask(o == k ? off << 12 | 4095 : off, d, d);
      const __m512i ab01 = _mm512_permutex2var_epi32(a, first, b), ab23 = _mm512_permutex2var_epi32(a, second, b);
      const __m512i cd01 = _mm512_permutex2var_epi32(c, first, d), cd23 = _mm512_permutex2var_epi32(c, second, d);
      const __m512i groups[4] = {_mm512_shuffle_i64x2(ab01, cd01, 0x44), _mm512_shuffle_i64x2(ab01, cd01, 0xEE),
                                 _mm512_shuffle_i64x2(ab23, cd23, 0x44), _mm512_shuffle_i64x2(ab23, cd23, 0xEE)};
      uint8_t *to = packed + (size_t{k / Dot::kGroupBytes} * block + o) * Dot::kGroupBytes;
      for (const __m512i group : groups) {
        _mm512_store_si512(to, group);
        sums = _mm512_dpbusd_epi32(sums, ones, group);
        to += size_t{block} * Dot::kGroupBytes;
      }
    }
    _mm512_store_si512(packed + Dot::weight_bytes(block) + o * sizeof(int32_t),
                       _mm512_slli_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), sums), 7));
  }
  pack_diagonal(block, tile, packed, beside == 0);
}

void bias_inp(uint32_t block, const int8_t *rows, uint8_t *side, size_t count) {
  const __m128i bias = _mm_set1_epi8(-128);
  for (size_t k = 0; k < count * block; k += 16) {
    const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i *>(rows + k));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(side + k), _mm_xor_si128(some, bias));
  }
}

size_t side_bytes(uint32_t block) { return block; }

void gemm(const Loops &loops, const GemmOperands &t, bool overwrite) {
  if (t.block == 16) return gemm_with<16, 1>(loops, t, overwrite);
  gemm_with<0, 2>(loops, t, overwrite);
}

constexpr Kernels kKernels = {LDS_SIM_KERNELS_AVX512,
                              16,
                              Dot::kGroupBytes,
                              1,
                              tile_bytes,
                              side_bytes,
                              pack_wgt,
                              gemm,
                              gemm_reset,
                              alu,
                              rq,
                              take_bytes,
                              bias_inp,
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
