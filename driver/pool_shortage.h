/* Explain in one line why a pool could not provide a buffer. Private to driver/.
 *
 * In:   the pool, and the request.
 * Out:  text with the size that is needed and the size that is available.
 * Next: linux_board.c, hal_simd.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_POOL_SHORTAGE_H
#define LDS_POOL_SHORTAGE_H

#include <stdio.h>

#include "lds_pool.h"

static inline void lds_pool_shortage(const lds_pool *pool, size_t size_bytes, size_t align_bytes, char *text, size_t text_bytes) {
  unsigned long used = 0;
  uint32_t k;
  for (k = 0; k < pool->used; ++k) used += (unsigned long)pool->blocks[k].size_bytes;
  if (pool->used == pool->capacity) {
    (void)snprintf(text, text_bytes, "DMA memory: one more buffer is needed, but all %lu are in use", (unsigned long)pool->capacity);
  } else if (((pool->bus ^ (uintptr_t)pool->cpu) & (align_bytes - 1u)) != 0) {
    (void)snprintf(text, text_bytes,
                   "DMA memory: a buffer at a multiple of %lu is needed, but its two addresses, %#llx and %#llx, do not differ by one",
                   (unsigned long)align_bytes, (unsigned long long)(uintptr_t)pool->cpu, (unsigned long long)pool->bus);
  } else {
    (void)snprintf(text, text_bytes, "DMA memory: %lu bytes more are needed, but of %lu bytes %lu are in use", (unsigned long)size_bytes,
                   (unsigned long)pool->size_bytes, used);
  }
}

#endif /* LDS_POOL_SHORTAGE_H */
