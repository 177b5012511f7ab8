// Implementation of the state in machine.h.
// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <algorithm>
#include <cstring>

#include "bfloat16.h"

namespace lds::sim {
namespace {

// The table for `path`, or the best one; for a block that is too small, the next simpler table.
const Kernels *kernels_for(int path, uint32_t block) {
  const Kernels *tables[] = {avx512_kernels(), avx2_kernels(), neon_kernels(), wasm_kernels(), &kPortableKernels};
  for (const Kernels *table : tables) {
    if (table == nullptr || table->min_block > block) continue;
    if (path == LDS_SIM_KERNELS_BEST || table->path <= path) return table;
  }
  return nullptr;
}

bool host_has(int path) {
  switch (path) {
    case LDS_SIM_KERNELS_BEST:
    case LDS_SIM_KERNELS_PORTABLE:
      return true;
    case LDS_SIM_KERNELS_AVX2:
      return avx2_kernels() != nullptr;
    case LDS_SIM_KERNELS_AVX512:
      return avx512_kernels() != nullptr;
    case LDS_SIM_KERNELS_NEON:
      return neon_kernels() != nullptr;
    case LDS_SIM_KERNELS_WASM:
      return wasm_kernels() != nullptr;
    default:
      return false;
  }
}

}  // namespace

Machine::Machine(const Geometry &geometry, Poll *asked)
    : g(geometry),
      poll(asked),
      uop(g.depth[LDS_MEMORY_UOP]),
      inp(g.is_float ? 0 : size_t{g.depth[LDS_MEMORY_INP]} * g.lanes),
      acc(size_t{g.depth[LDS_MEMORY_ACC]} * g.lanes),
      float_inp(g.is_float ? size_t{g.depth[LDS_MEMORY_INP]} * g.lanes : 0),
      float_wgt(g.is_float ? size_t{g.depth[LDS_MEMORY_WGT]} * g.block * g.block : 0),
      kernels(kernels_for(LDS_SIM_KERNELS_BEST, g.block)) {
  if (!g.is_float) {
    wgt = AlignedBuffer<uint8_t>(g.depth[LDS_MEMORY_WGT] * wgt_tile_bytes());
    inp_side = AlignedBuffer<uint8_t>(inp_rows() * kernels->side_bytes(g.block));
  }
  reset_scratchpads();
}

bool Machine::use_kernels(int path) {
  if (!host_has(path)) return false;
  const Kernels *chosen = kernels_for(path, g.block);
  if (chosen == kernels) return true;
  if (g.is_float) {  // all tables read float weights in the same order
    kernels = chosen;
    return true;
  }
  const size_t tile_bytes = chosen->tile_bytes(g.block);
  AlignedBuffer<uint8_t> packed(g.depth[LDS_MEMORY_WGT] * tile_bytes), side(inp_rows() * chosen->side_bytes(g.block));
  std::vector<int8_t> tile(g.dram_tile_bytes[LDS_MEMORY_WGT]);
  for (uint32_t t = 0; t < g.depth[LDS_MEMORY_WGT]; ++t) {
    unpack_wgt(t, tile.data());
    chosen->pack_wgt(g.block, tile.data(), packed.data() + t * tile_bytes);
  }
  wgt = std::move(packed);
  inp_side = std::move(side);
  kernels = chosen;
  kernels->prepare_inp(g.block, inp.data(), inp_side.data(), inp_rows());
  return true;
}

void Machine::reset_scratchpads() {
  std::fill(uop.begin(), uop.end(), Uop{});
  inp.clear();
  acc.clear();
  float_inp.clear();
  float_wgt.clear();
  if (g.is_float) return;
  kernels->prepare_inp(g.block, inp.data(), inp_side.data(), inp_rows());  // a zero need not be a byte of zeros there
  const std::vector<int8_t> zeros(g.dram_tile_bytes[LDS_MEMORY_WGT]);
  kernels->pack_wgt(g.block, zeros.data(), wgt.data());
  for (size_t at = wgt_tile_bytes(); at < wgt.size(); at += wgt_tile_bytes()) std::memcpy(wgt.data() + at, wgt.data(), wgt_tile_bytes());
}

void Machine::unpack_wgt(uint32_t tile, int8_t *out) const {
  const uint8_t *packed = wgt.data() + tile * wgt_tile_bytes();
  const uint32_t group = kernels->wgt_group;
  for (uint32_t k = 0; k < g.block; k += group)
    for (uint32_t o = 0; o < g.block; ++o)
      for (uint32_t of_group = 0; of_group < group; ++of_group, packed += kernels->wgt_element_bytes)
        out[o * g.block + k + of_group] = static_cast<int8_t>(*packed);
}

void Machine::unpack_float_wgt(uint32_t tile, uint8_t *out) const {
  const float *packed = float_wgt.data() + size_t{tile} * g.block * g.block;
  for (uint32_t o = 0; o < g.block; ++o)
    for (uint32_t k = 0; k < g.block; ++k) put_bfloat16(out + 2 * (size_t{o} * g.block + k), packed[size_t{k} * g.block + o]);
}

const char *memory_name(uint32_t memory) {
  static const char *const names[] = {"UOP", "WGT", "INP", "ACC", "OUT", "ACC_8BIT", "WGT_4BIT", "WGT_PLANES"};
  return memory < LDS_MEMORIES ? names[memory] : "?";
}

}  // namespace lds::sim
