// The inner loops over tiles: one table of functions for each instruction set of the host.
//
// In:   scratchpads, and the loops of one GEMM or ALU instruction, whose bounds have been checked.
// Out:  accumulators, with the same bits from every table.
// Next: exec_compute.cc calls the table that machine.cc chose.
//
// Weights are kept in the order in which the table's GEMM reads them (`pack_wgt` at LOAD WGT), because weights are used far more often
// than they are loaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lds::sim {

struct Uop {
  uint16_t dst, src, wgt;
};

// for i in 0..iter_out: for j in 0..iter_in: for u in uops: index = uop + i * out + j * in
struct Loops {
  const Uop *uops;
  uint32_t count, iter_out, iter_in;
  uint32_t dst_out, dst_in, src_out, src_in, wgt_out, wgt_in;

  uint64_t steps() const { return uint64_t{count} * iter_out * iter_in; }
};

struct GemmOperands {
  uint32_t batch, block;
  int32_t *acc;         // [tile][batch][block]
  const int8_t *inp;    // [tile][batch][block]
  const uint8_t *side;  // [tile][batch][side_bytes]: the result of prepare_inp for the row
  const uint8_t *wgt;   // packed tiles
};

// The same for bfloat16 elements, each kept as a float32; acc holds the bits of float32.
struct FloatOperands {
  uint32_t batch, block;
  int32_t *acc;      // [tile][batch][block]
  const float *inp;  // [tile][batch][block]
  const float *wgt;  // [tile][in][out]
};

struct RqRegisters {
  int32_t zero_point, min, max;
  uint32_t rounding;  // LDS_ROUNDING_*
};

struct Kernels {
  int path;            // LDS_SIM_KERNELS_*
  uint32_t min_block;  // smallest block that these kernels support; for smaller ones the portable table is used
  uint32_t wgt_group;  // packed position of (o, k): ((k / group) * block + o) * group + k % group
  uint32_t wgt_element_bytes;
  size_t (*tile_bytes)(uint32_t block);  // size of a packed weight tile, with the data that pack_wgt appends to the weights
  size_t (*side_bytes)(uint32_t block);  // size of the result of prepare_inp for a row

  void (*pack_wgt)(uint32_t block, const int8_t *tile, uint8_t *packed);  // tile: [out][in]
  void (*gemm)(const Loops &loops, const GemmOperands &operands, bool overwrite);
  void (*gemm_reset)(const Loops &loops, uint32_t lanes, int32_t *acc);
  void (*alu)(const Loops &loops, uint32_t lanes, int32_t *acc, uint32_t op, bool use_imm, int32_t imm);
  void (*rq)(const Loops &loops, uint32_t lanes, int32_t *acc, const RqRegisters &registers);
  void (*take_bytes)(const int32_t *acc, size_t lanes, uint8_t *out);  // at STORE
  void (*prepare_inp)(uint32_t block, const int8_t *rows, uint8_t *side,
                      size_t count);  // at LOAD INP: what this GEMM needs of rows [count][block]
  void (*float_gemm)(const Loops &loops, const FloatOperands &operands, bool overwrite);
  void (*float_alu)(const Loops &loops, uint32_t lanes, int32_t *acc, uint32_t op, bool use_imm, int32_t imm);
};

extern const Kernels kPortableKernels;
// These files are compiled for processors that the host may not have: no other function of them may be called.
extern const Kernels *const kAvx2Kernels, *const kAvx512Kernels, *const kNeonKernels, *const kWasmKernels;

// The same, or nullptr when this host or this build does not support it.
const Kernels *avx2_kernels();
const Kernels *avx512_kernels();  // AVX-512 F, BW, DQ, VL and VNNI
const Kernels *neon_kernels();    // arm64 with dot products
const Kernels *wasm_kernels();    // WebAssembly with vectors of 128 bits

}  // namespace lds::sim
