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
  uint32_t dram_tile_bytes[LDS_MEMORIES];  // bytes of one tile in DRAM, by LDS_MEMORY_*; of WGT_4BIT those of a group
  uint32_t dram_base_bytes[LDS_MEMORIES];  // bytes that dram_base counts: the same, but for WGT_4BIT
  uint32_t filled_tiles[LDS_MEMORIES];     // tiles of the scratchpad that one tile in DRAM fills: 1, but for WGT_4BIT
  uint32_t capabilities;
  bool is_float;  // elements are bfloat16, accumulators float32; else int8 and int32

  bool has(uint32_t capability) const { return (capabilities & capability) != 0; }
};

// The limits are those of HwConfig (vta/device/hw_config.py), whose messages name them; here they only protect the simulator.
std::optional<Geometry> geometry_of(const lds_hw_config &config);

}  // namespace lds::sim
