/* A block of the heap as DMA memory, for HALs of devices in this process. Private to driver/.
 *
 * In:   a size in bytes.
 * Out:  zeros, at a multiple of the largest alignment that the runtime requests: if the bus address is one too, both are aligned.
 * Next: hal_sim.c, hal_null.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_HEAP_H
#define LDS_HEAP_H

#include <stdlib.h>

#include "lds_hal.h"

/* NULL when memory is exhausted; *owner must be freed. A large block consists of fresh pages, which the system provides on first use. */
static inline uint8_t *lds_heap_alloc(size_t size_bytes, void **owner) {
  const size_t spare = LDS_DMA_MAX_ALIGN;
  uint8_t *begin;
  *owner = size_bytes <= SIZE_MAX - spare ? calloc(1, size_bytes + spare) : NULL;
  if (*owner == NULL) return NULL;
  begin = *owner;
  return begin + (-(uintptr_t)begin & (spare - 1u));
}

#endif /* LDS_HEAP_H */
