// Kernels for arm64 hosts with dot products (Armv8.2): four signed bytes summed in each of 4 lanes, one instruction.
//
// In:   weights packed as int8 [in / 4][out][4].
// Out:  kNeonKernels, nullptr where the compiler lacks it.
// Next: kernels.cc asks the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

#include <cstring>

#include "lds_isa.h"
#include "lds_sim.h"

namespace lds::sim {
namespace {

constexpr uint32_t kVectorLanes = 4;
#include "float_lanes.inc"

constexpr uint32_t kLanes = kVectorLanes;
constexpr uint32_t kGroup = 4;   // bytes that one instruction sums in each lane
constexpr uint32_t kChunk = 16;  // inputs in one register
constexpr uint32_t kParts = 8;   // registers of outputs at a time, for blocks whose weights do not fit into registers

void pack_wgt(uint32_t block, const int8_t *tile, uint8_t *packed) {
  for (uint32_t k = 0; k < block; k += kGroup)
    for (uint32_t o = 0; o < block; ++o, packed += kGroup) std::memcpy(packed, tile + o * block + k, kGroup);
}

void sum_inp(uint32_t, const int8_t *, int32_t *, size_t) {}  // this GEMM multiplies signed numbers: it needs no sums

inline int8x16_t load_wgt(const uint8_t *packed) { return vreinterpretq_s8_u8(vld1q_u8(packed)); }

// One row of an input tile by a weight tile in registers. Sums wrap, so they may begin at what ACC holds.
template <uint32_t kBlock, bool kOverwrite>
inline void multiply_row(const int8_t *x, const int8x16_t (&w)[kBlock / kGroup][kBlock / kLanes], int32_t *acc) {
  int8x16_t row;
  if constexpr (kBlock == kChunk)
    row = vld1q_s8(x);
  else
    row = vcombine_s8(vld1_s8(x), vdup_n_s8(0));
  for (uint32_t p = 0; p < kBlock / kLanes; ++p) {
    int32x4_t sum = kOverwrite ? vdupq_n_s32(0) : vld1q_s32(acc + p * kLanes);
    sum = vdotq_laneq_s32(sum, w[0][p], row, 0);
    sum = vdotq_laneq_s32(sum, w[1][p], row, 1);
    if constexpr (kBlock == kChunk) {
      sum = vdotq_laneq_s32(sum, w[2][p], row, 2);
      sum = vdotq_laneq_s32(sum, w[3][p], row, 3);
    }
    vst1q_s32(acc + p * kLanes, sum);
  }
}

// A weight tile of 8x8 or 16x16 in registers, kept from step to step while it stays the same.
template <uint32_t kBlock, bool kOverwrite>
void gemm_small(const Loops &loops, const GemmOperands &t) {
  static_assert(kBlock == kChunk || kBlock == kChunk / 2, "the row of an input tile is one register, or half of one");
  const Loops l = loops;  // copies: stores to acc cannot change them
  const GemmOperands o = t;
  int8x16_t w[kBlock / kGroup][kBlock / kLanes] = {};
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
              w[g][p] = load_wgt(o.wgt + held * (kBlock * kBlock) + (g * kBlock + p * kLanes) * kGroup);
        }
        const size_t row = (src + uop->src) * o.batch, out = (dst + uop->dst) * o.batch;
        for (uint32_t b = 0; b < o.batch; ++b) multiply_row<kBlock, kOverwrite>(o.inp + (row + b) * kBlock, w, o.acc + (out + b) * kBlock);
      }
    }
}

// Four inputs, lane kLane of `row`, by kParts registers of outputs.
template <int kLane>
inline void multiply_group(int32x4_t (&sum)[kParts], const uint8_t *w, int8x16_t row) {
  for (uint32_t p = 0; p < kParts; ++p) sum[p] = vdotq_laneq_s32(sum[p], load_wgt(w + p * kLanes * kGroup), row, kLane);
}

// Blocks of 32 and more, without keeping weights.
void gemm_large(const Loops &loops, const GemmOperands &t, bool overwrite) {
  const size_t wgt_bytes = size_t{t.block} * t.block, group_bytes = size_t{t.block} * kGroup;
  for (uint32_t i = 0; i < loops.iter_out; ++i)
    for (uint32_t j = 0; j < loops.iter_in; ++j)
      for (uint32_t u = 0; u < loops.count; ++u) {
        const Uop uop = loops.uops[u];
        const size_t d = uop.dst + size_t{i} * loops.dst_out + size_t{j} * loops.dst_in;
        const size_t s = uop.src + size_t{i} * loops.src_out + size_t{j} * loops.src_in;
        const size_t w = uop.wgt + size_t{i} * loops.wgt_out + size_t{j} * loops.wgt_in;
        for (uint32_t b = 0; b < t.batch; ++b) {
          const int8_t *x = t.inp + (s * t.batch + b) * t.block;
          for (uint32_t first = 0; first < t.block; first += kParts * kLanes) {
            int32_t *acc = t.acc + (d * t.batch + b) * t.block + first;
            const uint8_t *wgt = t.wgt + w * wgt_bytes + size_t{first} * kGroup;
            int32x4_t sum[kParts];
            for (uint32_t p = 0; p < kParts; ++p) sum[p] = overwrite ? vdupq_n_s32(0) : vld1q_s32(acc + p * kLanes);
            for (uint32_t k = 0; k < t.block; k += kChunk, wgt += kChunk / kGroup * group_bytes) {
              const int8x16_t row = vld1q_s8(x + k);
              multiply_group<0>(sum, wgt, row);
              multiply_group<1>(sum, wgt + group_bytes, row);
              multiply_group<2>(sum, wgt + 2 * group_bytes, row);
              multiply_group<3>(sum, wgt + 3 * group_bytes, row);
            }
            for (uint32_t p = 0; p < kParts; ++p) vst1q_s32(acc + p * kLanes, sum[p]);
          }
        }
      }
}

void gemm(const Loops &loops, const GemmOperands &t, bool overwrite) {
  if (t.block == 8) return overwrite ? gemm_small<8, true>(loops, t) : gemm_small<8, false>(loops, t);
  if (t.block == 16) return overwrite ? gemm_small<16, true>(loops, t) : gemm_small<16, false>(loops, t);
  gemm_large(loops, t, overwrite);
}

constexpr Kernels kKernels = {LDS_SIM_KERNELS_NEON, 8, kGroup, 1, 0, pack_wgt, gemm, gemm_reset, alu, rq, sum_inp, float_gemm, float_alu};

}  // namespace

const Kernels *const kNeonKernels = &kKernels;

}  // namespace lds::sim

#else

namespace lds::sim {
const Kernels *const kNeonKernels = nullptr;
}  // namespace lds::sim

#endif
