// The accesses of an instruction: tiles of scratchpads, bytes of DRAM.
//
// In:   an instruction, and the micro-ops that the scratchpad holds when it runs; bounds already checked.
// Out:  calls of visit(memory, tile, reads, writes), visit_dram(begin, end, writes).
// Next: check.cc (races, uninitialised reads), strict.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "machine.h"
#include "program.h"

namespace lds::sim {

struct Moves {
  uint32_t out, in;  // an operand's step in each turn of the outer and of the inner loop
};

// Visits each tile that an operand names. A loop that does not move the operand is run once, so that a tile is visited again only where
// a micro-op or a factor repeats it.
template <typename Visit>
void visit_operand(const Machine &m, const Loops &l, uint16_t Uop::*operand, Moves moves, Visit visit) {
  const uint32_t outs = moves.out == 0 ? 1 : l.iter_out, ins = moves.in == 0 ? 1 : l.iter_in;
  for (uint32_t i = 0; i < outs; ++i)
    for (uint32_t j = 0; j < ins; ++j) {
      m.poll->spend(Poll::kVisit * l.count);
      for (uint32_t u = 0; u < l.count; ++u) visit(static_cast<uint32_t>(l.uops[u].*operand + i * moves.out + j * moves.in));
    }
}

inline Moves dst_moves(const Loops &l) { return {l.dst_out, l.dst_in}; }
inline Moves src_moves(const Loops &l) { return {l.src_out, l.src_in}; }
inline Moves wgt_moves(const Loops &l) { return {l.wgt_out, l.wgt_in}; }

// Visits rows of DRAM; rows that follow each other without a gap are visited as one range.
template <typename Visit>
void visit_rows(const Machine &m, const lds_insn_memory &i, bool writes, Visit visit) {
  if (i.x_size == 0 || i.y_size == 0) return;
  const uint64_t tile_bytes = m.g.dram_tile_bytes[i.memory_id];
  const uint64_t address = dram_address(m, i, writes), row = i.x_size * tile_bytes;
  if (i.x_stride == i.x_size) return visit(address, address + row * i.y_size);
  for (uint32_t y = 0; y < dram_rows(i); ++y) visit(address + y * i.x_stride * tile_bytes, address + y * i.x_stride * tile_bytes + row);
}

// The scratchpad that a LOAD fills: ACC for ACC_8BIT, WGT for WGT_4BIT and WGT_PLANES.
constexpr uint32_t kScratchpads[LDS_MEMORIES] = LDS_SCRATCHPADS;
inline uint32_t scratchpad_of(uint32_t memory) { return kScratchpads[memory]; }

}  // namespace lds::sim
