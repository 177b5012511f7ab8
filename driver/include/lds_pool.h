/* An allocator of DMA memory within one contiguous area: first fit over a table of blocks.
 *
 * In:   an area of memory with its CPU and bus address; a table that the owner provides.
 * Out:  aligned buffers.
 * Next: the HALs whose memory is reserved in advance: sim, linux_uio, linux_devmem, baremetal.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_POOL_H
#define LDS_POOL_H

#include "lds_hal.h"

/* A block in use; blocks are sorted by offset. */
typedef struct lds_pool_block {
  size_t offset, size_bytes;
} lds_pool_block;

typedef struct lds_pool {
  uint8_t *cpu;
  uint64_t bus;
  size_t size_bytes;
  lds_pool_block *blocks;
  uint32_t used, capacity;
} lds_pool;

/* LDS_HAL_OK or LDS_HAL_NO_MEMORY. align_bytes: a power of two, for the bus address and the CPU's. Both can be aligned only
 * if `cpu` - `bus` is a multiple of it; the owner makes it a multiple of LDS_DMA_MAX_ALIGN, or at least of a page. */
LDS_HAL_EXPORT int lds_pool_alloc(lds_pool *pool, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out);
LDS_HAL_EXPORT void lds_pool_free(lds_pool *pool, lds_dma_buffer *buffer);

#endif /* LDS_POOL_H */
