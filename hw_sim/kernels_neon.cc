// Kernels for arm64 hosts with dot products (Armv8.2): one instruction sums four products of signed bytes in each of 4 lanes.
//
// In:   weights packed as int8 [in / 4][out][4], followed by the diagonal.
// Out:  kNeonKernels, nullptr where the compiler lacks the dot products.
// Next: kernels.cc tests whether the host has them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

#include <cstring>
#include <type_traits>

#include "lds_isa.h"
#include "lds_sim.h"

namespace lds::sim {
namespace {

#include "vectors.inc"

constexpr uint32_t kVectorLanes = 4;

inline Vectors<4>::I32 high_product(Vectors<4>, Vectors<4>::I32 a, Vectors<4>::I32 b) {
  return (Vectors<4>::I32)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
}

#include "float_lanes.inc"

// For gemm_rows.inc.
struct Dot {
  typedef int32x4_t Sum;
  typedef int8x16_t Wgt;
  typedef int8_t X;
  typedef int8x8_t Inputs;
  static constexpr uint32_t kLanes = kVectorLanes;  // sums in a register
  static constexpr uint32_t kSums = 16;             // registers of sums; 4 hold weights, 4 inputs
  static constexpr uint32_t kGroupBytes = 4;        // bytes that one instruction sums in each lane
  static constexpr uint32_t kChunk = 8;             // inputs in half a register, as many as the smallest block has
  static constexpr bool kColumnSums = false;
  typedef int8_t Diagonal;
  static constexpr uint32_t kDiagonalLanes = 16;  // bytes in a register

  static size_t weight_bytes(uint32_t block) { return size_t{block} * block; }
  static const int8_t *inputs(const GemmOperands &t) { return t.inp; }
  static Sum zero() { return vdupq_n_s32(0); }
  static Sum add(Sum a, Sum b) { return vaddq_s32(a, b); }
  static Sum load(const int32_t *from) { return vld1q_s32(from); }
  static void store(int32_t *to, Sum sum) { vst1q_s32(to, sum); }
  static Wgt load_wgt(const uint8_t *from) { return vreinterpretq_s8_u8(vld1q_u8(from)); }
  static Inputs take_inputs(const int8_t *x) { return vld1_s8(x); }

  // Four of the inputs, by the lane that the instruction names.
  template <uint32_t kGroup>
  struct Four {
    int8x8_t inputs;
  };
  template <uint32_t kGroup>
  static Four<kGroup> take_group(Inputs inputs, std::integral_constant<uint32_t, kGroup>) {
    return {inputs};
  }
  template <uint32_t kGroup>
  static Sum dot(Sum sum, Wgt wgt, Four<kGroup> four) {
    return vdotq_lane_s32(sum, wgt, four.inputs, static_cast<int>(kGroup));
  }
  template <typename Work>
  static void each_group(Work work) {
    work(std::integral_constant<uint32_t, 0>{});
    work(std::integral_constant<uint32_t, 1>{});
  }
};

#include "gemm_rows.inc"

// Lane by lane.
void multiply_diagonals(const GemmOperands &t, const Row *rows, uint32_t row_count, const Tap *taps, uint32_t tap_count, bool overwrite) {
  const size_t row_elements = size_t{t.batch} * t.block, bytes = tile_bytes(t.block);
  for (uint32_t first = 0; first < t.block; first += Dot::kDiagonalLanes) {
    int8x16_t diagonal[kMostTaps];
    for (uint32_t k = 0; k < tap_count; ++k) diagonal[k] = Dot::load_wgt(t.wgt + taps[k].wgt * bytes + Dot::weight_bytes(t.block) + first);
    for (uint32_t r = 0; r < row_count; ++r)
      for (uint32_t b = 0; b < t.batch; ++b) {
        const int8_t *x = t.inp + rows[r].src * row_elements + size_t{b} * t.block + first;
        int32x4_t sum[4] = {Dot::zero(), Dot::zero(), Dot::zero(), Dot::zero()};
        for (uint32_t k = 0; k < tap_count; ++k) {
          const int8x16_t some = vld1q_s8(x + taps[k].src * row_elements);
          const int16x8_t low = vmull_s8(vget_low_s8(some), vget_low_s8(diagonal[k])), high = vmull_high_s8(some, diagonal[k]);
          sum[0] = vaddw_s16(sum[0], vget_low_s16(low));
          sum[1] = vaddw_high_s16(sum[1], low);
          sum[2] = vaddw_s16(sum[2], vget_low_s16(high));
          sum[3] = vaddw_high_s16(sum[3], high);
        }
        int32_t *acc = t.acc + rows[r].dst * row_elements + size_t{b} * t.block + first;
        for (uint32_t p = 0; p < 4; ++p)
          Dot::store(acc + p * Dot::kLanes, overwrite ? sum[p] : Dot::add(sum[p], Dot::load(acc + p * Dot::kLanes)));
      }
  }
}

void pack_wgt(uint32_t block, const int8_t *tile, uint8_t *packed) {
  uint8_t *to = packed;
  for (uint32_t k = 0; k < block; k += Dot::kGroupBytes)
    for (uint32_t o = 0; o < block; ++o, to += Dot::kGroupBytes) std::memcpy(to, tile + o * block + k, Dot::kGroupBytes);
  pack_diagonal(block, tile, packed, is_diagonal(block, tile));
}

void prepare_inp(uint32_t, const int8_t *, uint8_t *, size_t) {}  // this GEMM multiplies signed bytes, and reads inputs as they are
size_t side_bytes(uint32_t) { return 0; }

void gemm(const Loops &loops, const GemmOperands &t, bool overwrite) {
  if (t.block == 8) return gemm_with<8, 2>(loops, t, overwrite);
  if (t.block == 16) return gemm_with<16, 4>(loops, t, overwrite);
  gemm_with<0, 4>(loops, t, overwrite);
}

constexpr Kernels kKernels = {
    LDS_SIM_KERNELS_NEON, 8,           Dot::kGroupBytes, 1,        tile_bytes, side_bytes, pack_wgt, gemm, gemm_reset, alu, rq,
    take_bytes,           prepare_inp, float_gemm,       float_alu};

}  // namespace

const Kernels *const kNeonKernels = &kKernels;

}  // namespace lds::sim

#else

namespace lds::sim {
const Kernels *const kNeonKernels = nullptr;
}  // namespace lds::sim

#endif
