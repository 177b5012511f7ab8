/* The functions of lds_pool.h.
 *
 * In:   requests.
 * Out:  buffers.
 * Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_pool.h"

/* Whether the pool has an offset at which both addresses are multiples of align_bytes: at every offset then both are, or neither. */
static int can_align(const lds_pool *pool, size_t align_bytes) {
  if (align_bytes == 0 || (align_bytes & (align_bytes - 1u)) != 0) return 0;
  return ((pool->bus ^ (uintptr_t)pool->cpu) & (align_bytes - 1u)) == 0;
}

/* The first such offset from `offset` on; if there is none, SIZE_MAX, which is beyond the end of any pool. */
static size_t aligned_from(const lds_pool *pool, size_t offset, size_t align_bytes) {
  const size_t pad = (size_t)(0u - (pool->bus + offset)) & (align_bytes - 1u);
  return pad <= SIZE_MAX - offset ? offset + pad : SIZE_MAX;
}

int lds_pool_alloc(lds_pool *pool, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  size_t begin = 0;
  uint32_t k, j;
  if (pool->used == pool->capacity || !can_align(pool, align_bytes)) return LDS_HAL_NO_MEMORY;
  for (k = 0; k <= pool->used; ++k) {
    const size_t end = k < pool->used ? pool->blocks[k].offset : pool->size_bytes;
    const size_t offset = aligned_from(pool, begin, align_bytes);
    if (offset <= end && size_bytes <= end - offset) {
      for (j = pool->used++; j > k; --j) pool->blocks[j] = pool->blocks[j - 1u];
      pool->blocks[k].offset = offset;
      pool->blocks[k].size_bytes = size_bytes;
      out->cpu = pool->cpu + offset;
      out->bus = pool->bus + offset;
      out->size_bytes = size_bytes;
      out->flags = flags;
      return LDS_HAL_OK;
    }
    if (k < pool->used) begin = pool->blocks[k].offset + pool->blocks[k].size_bytes;
  }
  return LDS_HAL_NO_MEMORY;
}

void lds_pool_free(lds_pool *pool, lds_dma_buffer *buffer) {
  uint32_t k;
  for (k = 0; k < pool->used && pool->cpu + pool->blocks[k].offset != buffer->cpu; ++k) continue;
  if (k == pool->used) return;
  --pool->used;
  for (; k < pool->used; ++k) pool->blocks[k] = pool->blocks[k + 1u];
  buffer->cpu = NULL;
}
