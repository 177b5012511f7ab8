// Kernels in plain C++, for any host and any block size.
//
// In:   weights packed as int16 [in][out], so that the inner loop runs over outputs.
// Out:  kPortableKernels, the table that the others must equal.
// Next: kernels_avx2.cc, kernels_avx512.cc and kernels_neon.cc.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels.h"
#include "lds_isa.h"
#include "lds_sim.h"

namespace lds::sim {
namespace {

#include "vectors.inc"

constexpr uint32_t kVectorLanes = 4;

#include "float_lanes.inc"

void pack_wgt(uint32_t block, const int8_t *tile, uint8_t *packed) {
  int16_t *out = reinterpret_cast<int16_t *>(packed);
  for (uint32_t o = 0; o < block; ++o)
    for (uint32_t k = 0; k < block; ++k) out[k * block + o] = tile[o * block + k];
}

// This GEMM reads the inputs as they are.
void prepare_inp(uint32_t, const int8_t *, uint8_t *, size_t) {}
size_t side_bytes(uint32_t) { return 0; }

size_t tile_bytes(uint32_t block) { return size_t{block} * block * sizeof(int16_t); }

// One row of a tile by a weight tile, `kBlock` outputs at a time in registers.
template <uint32_t kBlock>
void multiply_row(uint32_t block, const int8_t *x, const int16_t *w, int32_t *acc, bool overwrite) {
  for (uint32_t o = 0; o < block; o += kBlock) {
    int32_t sum[kBlock] = {};
    for (uint32_t k = 0; k < block; ++k) {
      const int16_t xk = x[k];
      const int16_t *wk = w + k * block + o;
      for (uint32_t l = 0; l < kBlock; ++l) sum[l] += int32_t{xk} * wk[l];
    }
    for (uint32_t l = 0; l < kBlock; ++l)
      acc[o + l] = static_cast<int32_t>(static_cast<uint32_t>(sum[l]) + (overwrite ? 0u : static_cast<uint32_t>(acc[o + l])));
  }
}

template <uint32_t kBlock>
void gemm_with(const Loops &loops, const GemmOperands &t, bool overwrite) {
  const size_t wgt_elements = size_t{t.block} * t.block;
  const int16_t *wgt = reinterpret_cast<const int16_t *>(t.wgt);
  for (uint32_t i = 0; i < loops.iter_out; ++i)
    for (uint32_t j = 0; j < loops.iter_in; ++j)
      for (uint32_t u = 0; u < loops.count; ++u) {
        const Uop &uop = loops.uops[u];
        const size_t d = uop.dst + size_t{i} * loops.dst_out + size_t{j} * loops.dst_in;
        const size_t s = uop.src + size_t{i} * loops.src_out + size_t{j} * loops.src_in;
        const size_t w = uop.wgt + size_t{i} * loops.wgt_out + size_t{j} * loops.wgt_in;
        for (uint32_t b = 0; b < t.batch; ++b)
          multiply_row<kBlock>(t.block, t.inp + (s * t.batch + b) * t.block, wgt + w * wgt_elements, t.acc + (d * t.batch + b) * t.block,
                               overwrite);
      }
}

void gemm(const Loops &loops, const GemmOperands &operands, bool overwrite) {
  if (operands.block >= 16) return gemm_with<16>(loops, operands, overwrite);
  if (operands.block == 8) return gemm_with<8>(loops, operands, overwrite);
  if (operands.block == 4) return gemm_with<4>(loops, operands, overwrite);
  return gemm_with<2>(loops, operands, overwrite);
}

}  // namespace

const Kernels kPortableKernels = {LDS_SIM_KERNELS_PORTABLE,
                                  2,
                                  1,
                                  2,
                                  tile_bytes,
                                  side_bytes,
                                  pack_wgt,
                                  gemm,
                                  gemm_reset,
                                  alu,
                                  rq,
                                  take_bytes,
                                  prepare_inp,
                                  float_gemm,
                                  float_alu};

}  // namespace lds::sim
