// Implementation of geometry.h.
// SPDX-License-Identifier: Apache-2.0
#include "geometry.h"

#include <algorithm>

namespace lds::sim {
namespace {

bool within(int64_t value, int64_t low, int64_t high) { return low <= value && value <= high; }

bool legal(const lds_hw_config &c) {
  if (!within(c.log_batch, 0, 6) || !within(c.log_block, 1, 7)) return false;
  const int64_t lu = c.log_uop_buff - 2;
  const int64_t wide = c.log_inp_width - 3;  // 1: elements of two bytes
  const int64_t li = c.log_inp_buff - c.log_batch - c.log_block - wide;
  const int64_t lw = c.log_wgt_buff - 2 * c.log_block - wide;
  const int64_t la = c.log_acc_buff - c.log_batch - c.log_block - 2;
  // RQ works on integers, and reads registers that CONFIG sets.
  const bool has_rq = (c.capabilities & LDS_CAP_REQUANTIZE) != 0, stores_rq = (c.capabilities & LDS_CAP_STORE_REQUANTIZE) != 0;
  const bool rounds = has_rq ? wide == 0 && (c.capabilities & LDS_CAP_CONFIG) != 0 : !stores_rq;
  // A tile of INP is no address that a host would move, and no float.
  if ((c.capabilities & LDS_CAP_STORE_INP) != 0 && (wide != 0 || (c.capabilities & LDS_CAP_REGIONS) == 0)) return false;
  if ((c.capabilities & LDS_CAP_STORE_ACC) != 0 && wide != 0) return false;
  const bool has_windows = (c.capabilities & LDS_CAP_DEPTHWISE) != 0;
  const bool has_groups = (c.capabilities & LDS_CAP_WEIGHTS4) != 0;
  const bool has_planes = (c.capabilities & LDS_CAP_WEIGHT_CODE) != 0;
  if (has_planes && (wide != 0 || 1u << c.log_block < LDS_PLANE_WEIGHTS)) return false;
  if (has_groups && (wide != 0 || c.log_block < 2 || 1u << c.log_block > LDS_GROUP_WEIGHTS)) return false;
  if (has_windows && (wide != 0 || c.log_block < 2 || li < 2)) return false;
  return c.isa_version == 1 && within(wide, 0, 1) && c.log_wgt_width == c.log_inp_width && c.log_acc_width == 5 && rounds &&
         within(lu, 1, 13) && within(li, 1, 15) && within(lw, 1, 15) && within(la, 1, 11) && la + li + lw <= 32 &&
         la + std::max(la, li) + lw <= 32 && within(c.uop_depth, 1, int64_t{1} << lu);
}

}  // namespace

std::optional<Geometry> geometry_of(const lds_hw_config &config) {
  if (!legal(config)) return std::nullopt;
  Geometry g{};
  g.widths = lds_isa_widths_of(&config);
  g.batch = 1u << config.log_batch;
  g.block = 1u << config.log_block;
  g.lanes = g.batch * g.block;
  g.capabilities = config.capabilities;
  const uint32_t acc_depth = 1u << g.widths.la;
  const uint32_t wgt_depth = 1u << g.widths.lw;
  const uint32_t depth[LDS_MEMORIES] = {config.uop_depth, wgt_depth, 1u << g.widths.li, acc_depth,
                                        acc_depth,        acc_depth, wgt_depth,         wgt_depth};
  g.is_float = lds_is_float(&config) != 0;
  const uint32_t element = g.is_float ? 2u : 1u, tile = element * g.lanes;
  const uint32_t group = (2u + LDS_GROUP_WEIGHTS / 2) * g.block;
  const uint32_t bytes[LDS_MEMORIES] = {LDS_UOP_BYTES, element * g.block * g.block, tile, 4u * g.lanes, tile, tile,
                                        group,         LDS_PLANE_WORD_BYTES};
  std::copy_n(depth, LDS_MEMORIES, g.depth);
  std::copy_n(bytes, LDS_MEMORIES, g.dram_tile_bytes);
  std::copy_n(bytes, LDS_MEMORIES, g.dram_base_bytes);
  std::fill_n(g.filled_tiles, LDS_MEMORIES, 1u);
  g.dram_base_bytes[LDS_MEMORY_WGT_4BIT] = 2u * g.block;
  g.filled_tiles[LDS_MEMORY_WGT_4BIT] = std::max(1u, LDS_GROUP_WEIGHTS / g.block);
  return g;
}

}  // namespace lds::sim
