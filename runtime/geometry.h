/* Tiles and scratchpads of a VTA that an artifact is for. Private to runtime/.
 *
 * In:   the fingerprint of a device of an opened model.
 * Out:  lds_hw_config; sizes of tiles.
 * Next: session.c resolves regions with it, validate.c measures accesses.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_GEOMETRY_H
#define LDS_GEOMETRY_H

#include "format.h"
#include "lds_isa.h"

static inline lds_hw_config lds_config_of(const lds_model *model, uint32_t device) {
  const uint8_t *p = lds_model_fingerprint(model, device);
  lds_hw_config c;
  memcpy(&c, p, 12);
  c.uop_depth = lds_u32(p + 12);
  c.capabilities = lds_u32(p + 16);
  return c;
}

/* Whether a device is a VTA whose instructions name regions as they are, because it has registers for them. */
static inline int lds_has_regions(const lds_model *model, uint32_t device) {
  const uint8_t *p = lds_model_fingerprint(model, device);
  return lds_hashed_bytes(p) == LDS_CONFIGURATION_BYTES && (lds_u32(p + 16) & LDS_CAP_REGIONS) != 0;
}

/* What x_size and x_stride of a LOAD of WGT_4BIT count, groups of weights, have in DRAM: multipliers and minima, and eight times as
 * much of numbers; and the tiles of WGT that each fills. */
enum { LDS_GROUP_BASES = 1 + LDS_GROUP_WEIGHTS / 4 };

static inline uint32_t lds_group_tiles(const lds_hw_config *c) { return LDS_GROUP_WEIGHTS >> c->log_block; }

/* log2 of the bytes of one tile of a memory in DRAM; of WGT_4BIT and WGT_PLANES of what dram_base counts: the multipliers and minima
 * of a group; a word. */
static inline uint32_t lds_log_tile_bytes(const lds_hw_config *c, uint32_t memory) {
  const uint32_t lanes = (uint32_t)c->log_batch + c->log_block, element = c->log_inp_width - 3u; /* log2 of its bytes */
  switch (memory) {
    case LDS_MEMORY_UOP:
      return 2;
    case LDS_MEMORY_WGT:
      return 2u * c->log_block + element;
    case LDS_MEMORY_ACC:
      return lanes + 2u;
    case LDS_MEMORY_WGT_4BIT:
      return c->log_block + 1u;
    case LDS_MEMORY_WGT_PLANES:
      return 3;
    default:
      return lanes + element;
  }
}

#endif /* LDS_GEOMETRY_H */
