// Kernels for WebAssembly with vectors of 128 bits: one instruction multiplies pairs of int16 and adds the two products in each of 4 lanes.
//
// In:   weights packed as int16 [in / 2][out][2], followed by the diagonal; inputs kept as int16 beside the scratchpad.
// Out:  kWasmKernels, nullptr for any other processor.
// Next: lab/ is the module that has them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#if defined(__wasm_simd128__)
#include <wasm_simd128.h>

#include <cstring>
#include <type_traits>

#include "lds_isa.h"
#include "lds_sim.h"

namespace lds::sim {
namespace {

#include "vectors.inc"

constexpr uint32_t kVectorLanes = 4;

#include "float_lanes.inc"

// For gemm_rows.inc.
struct Dot {
  typedef v128_t Sum;
  typedef v128_t Wgt;
  typedef int16_t X;
  typedef const int16_t *Inputs;                    // read in place: an instruction loads a pair into all lanes
  static constexpr uint32_t kLanes = kVectorLanes;  // sums in a register
  static constexpr uint32_t kSums = 8;              // registers of sums; a browser's x86-64 has 16 registers in all
  static constexpr uint32_t kPair = 2;              // int16 that one instruction sums in each lane
  static constexpr uint32_t kGroupBytes = kPair * sizeof(int16_t);
  static constexpr uint32_t kChunk = 8;  // inputs for which the loop is written out
  static constexpr bool kColumnSums = false;

  typedef int16_t Diagonal;
  static constexpr uint32_t kDiagonalLanes = 8;  // int16 in a register

  static size_t weight_bytes(uint32_t block) { return size_t{block} * block * sizeof(int16_t); }
  static const int16_t *inputs(const GemmOperands &t) { return reinterpret_cast<const int16_t *>(t.side); }
  static Sum zero() { return wasm_i32x4_splat(0); }
  static Sum add(Sum a, Sum b) { return wasm_i32x4_add(a, b); }
  static Sum load(const int32_t *from) { return wasm_v128_load(from); }
  static void store(int32_t *to, Sum sum) { wasm_v128_store(to, sum); }
  static Wgt load_wgt(const uint8_t *from) { return wasm_v128_load(from); }
  static Inputs take_inputs(const int16_t *x) { return x; }
  static Sum dot(Sum sum, Wgt wgt, v128_t pair) { return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(wgt, pair)); }

  template <uint32_t kGroup>
  static v128_t take_group(Inputs x, std::integral_constant<uint32_t, kGroup>) {
    return wasm_v128_load32_splat(x + kGroup * kPair);
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

inline v128_t low_halves(v128_t a, v128_t b) { return wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
inline v128_t high_halves(v128_t a, v128_t b) { return wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }

// Lane by lane, two taps at a time, with their inputs interleaved, because the instruction sums neighbours.
void multiply_diagonals(const GemmOperands &t, const Row *rows, uint32_t row_count, const Tap *taps, uint32_t tap_count, bool overwrite) {
  const size_t row_elements = size_t{t.batch} * t.block, bytes = tile_bytes(t.block);
  const uint32_t pairs = (tap_count + 1) / 2;
  for (uint32_t first = 0; first < t.block; first += Dot::kDiagonalLanes) {
    v128_t low[kMostTaps / 2], high[kMostTaps / 2];
    size_t at[kMostTaps / 2][2];
    for (uint32_t p = 0; p < pairs; ++p) {
      const Tap &a = taps[2 * p], &b = 2 * p + 1 < tap_count ? taps[2 * p + 1] : a;
      const uint8_t *diagonal = t.wgt + diagonal_at(t.block) + first * sizeof(int16_t);
      const v128_t of_a = wasm_v128_load(diagonal + a.wgt * bytes);
      const v128_t of_b = &b == &a ? Dot::zero() : wasm_v128_load(diagonal + b.wgt * bytes);
      low[p] = low_halves(of_a, of_b);
      high[p] = high_halves(of_a, of_b);
      at[p][0] = a.src * row_elements;
      at[p][1] = b.src * row_elements;
    }
    for (uint32_t r = 0; r < row_count; ++r)
      for (uint32_t b = 0; b < t.batch; ++b) {
        const int16_t *x = Dot::inputs(t) + rows[r].src * row_elements + size_t{b} * t.block + first;
        int32_t *acc = t.acc + rows[r].dst * row_elements + size_t{b} * t.block + first;
        v128_t begin = overwrite ? Dot::zero() : Dot::load(acc), end = overwrite ? Dot::zero() : Dot::load(acc + Dot::kLanes);
        for (uint32_t p = 0; p < pairs; ++p) {
          const v128_t of_a = wasm_v128_load(x + at[p][0]), of_b = wasm_v128_load(x + at[p][1]);
          begin = Dot::dot(begin, low[p], low_halves(of_a, of_b));
          end = Dot::dot(end, high[p], high_halves(of_a, of_b));
        }
        Dot::store(acc, begin);
        Dot::store(acc + Dot::kLanes, end);
      }
  }
}

// --- packing at LOAD --------------------------------------------------------------------------------
void pack_wgt(uint32_t block, const int8_t *tile, uint8_t *packed) {
  int16_t *out = reinterpret_cast<int16_t *>(packed);
  for (uint32_t k = 0; k < block; ++k)
    for (uint32_t o = 0; o < block; ++o) out[(k / Dot::kPair * block + o) * Dot::kPair + k % Dot::kPair] = tile[o * block + k];
  pack_diagonal(block, tile, packed, is_diagonal(block, tile));
}

void widen_inp(uint32_t block, const int8_t *rows, uint8_t *side, size_t count) {
  for (size_t k = 0; k < count * block; k += 8) wasm_v128_store(side + k * sizeof(int16_t), wasm_i16x8_load8x8(rows + k));
}

size_t side_bytes(uint32_t block) { return block * sizeof(int16_t); }

void gemm(const Loops &loops, const GemmOperands &t, bool overwrite) {
  if (t.block == 8) return gemm_with<8, 2>(loops, t, overwrite);
  if (t.block == 16) return gemm_with<16, 4>(loops, t, overwrite);
  gemm_with<0, 4>(loops, t, overwrite);
}

constexpr Kernels kKernels = {LDS_SIM_KERNELS_WASM, 8,   Dot::kPair, 2,          tile_bytes, side_bytes, pack_wgt, gemm,
                              gemm_reset,           alu, rq,         take_bytes, widen_inp,  float_gemm, float_alu};

}  // namespace

const Kernels *const kWasmKernels = &kKernels;

}  // namespace lds::sim

#else

namespace lds::sim {
const Kernels *const kWasmKernels = nullptr;
}  // namespace lds::sim

#endif
