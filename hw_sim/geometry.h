// The sizes that follow from a device's configuration.
//
// In:   lds_hw_config (20 bytes; perhaps hostile).
// Out:  Geometry: tiles, depths, bytes; or nothing when the configuration is invalid.
// Next: machine.h allocates scratchpads of these sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lds_isa.h"

namespace lds::sim {

struct Geometry {
  lds_isa_widths widths;
  uint32_t batch, block;                   // a tile is batch x block; a weight tile block x block
  uint32_t lanes;                          // batch * block
  uint32_t depth[LDS_MEMORIES];            // tiles of a scratchpad, by LDS_MEMORY_*
  uint32_t dram_tile_bytes[LDS_MEMORIES];  // bytes of one tile in DRAM, by LDS_MEMORY_*; of WGT_4BIT of a group, of WGT_PLANES of a word
  uint32_t dram_base_bytes[LDS_MEMORIES];  // bytes that dram_base counts: the same, but for WGT_4BIT
  uint32_t filled_tiles[LDS_MEMORIES];     // tiles of the scratchpad that one tile in DRAM fills: 1, but for WGT_4BIT
  uint32_t capabilities;
  bool is_float;  // elements are bfloat16, accumulators float32; else int8 and int32

  bool has(uint32_t capability) const { return (capabilities & capability) != 0; }
};

// Rows of x_size in DRAM of a LOAD or STORE: of WGT_PLANES one, the code of y_size tiles.
inline uint32_t dram_rows(const lds_insn_memory &i) { return i.memory_id == LDS_MEMORY_WGT_PLANES && i.y_size > 1 ? 1 : i.y_size; }

// Tiles of the scratchpad that a LOAD fills, padding included.
inline uint64_t filled_by(const Geometry &g, const lds_insn_memory &i) {
  if (i.memory_id == LDS_MEMORY_WGT_PLANES) return i.y_size;
  const uint64_t rows = uint64_t{i.y_pad_0} + i.y_size + i.y_pad_1, width = uint64_t{i.x_pad_0} + i.x_size + i.x_pad_1;
  return rows * width * g.filled_tiles[i.memory_id];
}

// The limits are those of HwConfig (vta/device/hw_config.py), whose messages name them; here they only protect the simulator.
std::optional<Geometry> geometry_of(const lds_hw_config &config);

}  // namespace lds::sim
