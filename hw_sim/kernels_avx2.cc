// Kernels for hosts with AVX2: products of pairs of int16, summed in each of 8 lanes, one instruction.
//
// In:   weights packed as int16 [in / 2][out][2].
// Out:  kAvx2Kernels, nullptr where the compiler lacks it.
// Next: kernels.cc asks the host.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include <cstring>

#include "lds_isa.h"
#include "lds_sim.h"

namespace lds::sim {
namespace {

constexpr uint32_t kVectorLanes = 8;
#include "float_lanes.inc"

constexpr uint32_t kLanes = kVectorLanes;
constexpr uint32_t kPair = 2;   // int16 that one instruction sums in each lane
constexpr uint32_t kChunk = 8;  // inputs that are widened at a time

void pack_wgt(uint32_t block, const int8_t *tile, uint8_t *packed) {
  for (uint32_t o = 0; o < block; ++o)
    for (uint32_t k = 0; k < block; k += kChunk) {
      const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(tile + o * block + k)));
      uint32_t pairs[kChunk / kPair];
      _mm_storeu_si128(reinterpret_cast<__m128i *>(pairs), wide);
      for (uint32_t p = 0; p < kChunk / kPair; ++p)
        std::memcpy(packed + (size_t{k / kPair + p} * block + o) * sizeof(uint32_t), &pairs[p], sizeof(uint32_t));
    }
}

void sum_inp(uint32_t, const int8_t *, int32_t *, size_t) {}  // this GEMM multiplies signed numbers: it needs no sums

// `kParts` registers of outputs, from output `first` on.
template <uint32_t kParts>
inline void multiply(uint32_t block, const int8_t *x, const uint8_t *w, uint32_t first, int32_t *acc, bool overwrite) {
  __m256i sum[kParts];
  for (uint32_t p = 0; p < kParts; ++p) sum[p] = _mm256_setzero_si256();
  for (uint32_t k = 0; k < block; k += kChunk) {
    const __m128i wide = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(x + k)));
    const __m256i pairs = _mm256_castsi128_si256(wide);
    for (uint32_t pair = 0; pair < kChunk / kPair; ++pair) {
      const __m256i both = _mm256_permutevar8x32_epi32(pairs, _mm256_set1_epi32(static_cast<int32_t>(pair)));
      const uint8_t *row = w + (size_t{k / kPair + pair} * block + first) * sizeof(uint32_t);
      for (uint32_t p = 0; p < kParts; ++p) {
        const __m256i part = _mm256_load_si256(reinterpret_cast<const __m256i *>(row + p * sizeof(__m256i)));
        sum[p] = _mm256_add_epi32(sum[p], _mm256_madd_epi16(part, both));
      }
    }
  }
  for (uint32_t p = 0; p < kParts; ++p) {
    __m256i *out = reinterpret_cast<__m256i *>(acc + first + p * kLanes);
    _mm256_store_si256(out, overwrite ? sum[p] : _mm256_add_epi32(sum[p], _mm256_load_si256(out)));
  }
}

// A constant block lets the compiler unroll everything; 0: any.
template <uint32_t kBlock, uint32_t kParts>
void gemm_with(const Loops &loops, const GemmOperands &t, bool overwrite) {
  const uint32_t block = kBlock == 0 ? t.block : kBlock;
  const size_t wgt_bytes = size_t{block} * block * sizeof(int16_t);
  for (uint32_t i = 0; i < loops.iter_out; ++i)
    for (uint32_t j = 0; j < loops.iter_in; ++j)
      for (uint32_t u = 0; u < loops.count; ++u) {
        const Uop uop = loops.uops[u];
        const size_t d = uop.dst + size_t{i} * loops.dst_out + size_t{j} * loops.dst_in;
        const size_t s = uop.src + size_t{i} * loops.src_out + size_t{j} * loops.src_in;
        const size_t w = uop.wgt + size_t{i} * loops.wgt_out + size_t{j} * loops.wgt_in;
        for (uint32_t b = 0; b < t.batch; ++b)
          for (uint32_t first = 0; first < block; first += kParts * kLanes)
            multiply<kParts>(block, t.inp + (s * t.batch + b) * block, t.wgt + w * wgt_bytes, first, t.acc + (d * t.batch + b) * block,
                             overwrite);
      }
}

void gemm(const Loops &loops, const GemmOperands &t, bool overwrite) {
  if (t.block == 8) return gemm_with<8, 1>(loops, t, overwrite);
  if (t.block == 16) return gemm_with<16, 2>(loops, t, overwrite);
  if (t.block == 32) return gemm_with<32, 4>(loops, t, overwrite);
  gemm_with<0, 4>(loops, t, overwrite);
}

constexpr Kernels kKernels = {LDS_SIM_KERNELS_AVX2, 8, kPair, 2, 0, pack_wgt, gemm, gemm_reset, alu, rq, sum_inp, float_gemm, float_alu};

}  // namespace

const Kernels *const kAvx2Kernels = &kKernels;

}  // namespace lds::sim

#else

namespace lds::sim {
const Kernels *const kAvx2Kernels = nullptr;
}  // namespace lds::sim

#endif
