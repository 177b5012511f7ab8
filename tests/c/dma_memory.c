/* A bare-metal board's DMA memory: both addresses aligned, no size or alignment that makes an offset wrap, and its caches' hooks.
 *
 * In:   -
 * Out:  exit status 0; else the line that failed. Sizes are those of this size_t: driver/test_dma_memory.py builds it for 64 and 32 bits.
 * Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "lds_hal_baremetal.h"

#define CHECK(condition)                                                    \
  do {                                                                      \
    if (!(condition)) {                                                     \
      (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                              \
    }                                                                       \
  } while (0)

enum { BYTES = 1 << 18, BLOCKS = 8 };

static uint8_t memory[BYTES + LDS_DMA_MAX_ALIGN];
static lds_pool_block blocks[BLOCKS];

static uint64_t now_ns(void) { return 0; }

/* cpu_shift and bus_shift: how far behind a multiple of the largest alignment both addresses begin. */
static void check(size_t cpu_shift, uint64_t bus_shift, size_t bytes) {
  static const size_t aligns[] = {1, 64, 4096, LDS_DMA_MAX_ALIGN, (SIZE_MAX >> 1) + 1u, 0, 48, SIZE_MAX};
  static const size_t sizes[] = {1, 100, 5000, SIZE_MAX, SIZE_MAX - 63u, SIZE_MAX - 4096u, (SIZE_MAX >> 1) + 1u};
  lds_baremetal board = {0};
  lds_hal hal;
  size_t a, s;
  board.pool.cpu = memory + (-(uintptr_t)memory & (LDS_DMA_MAX_ALIGN - 1u)) + cpu_shift;
  board.pool.bus = 0xF0000000u + bus_shift;
  board.pool.size_bytes = bytes;
  board.pool.blocks = blocks;
  board.pool.capacity = BLOCKS;
  board.now_ns = now_ns;
  lds_baremetal_hal(&board, &hal);
  for (a = 0; a < sizeof aligns / sizeof aligns[0]; ++a) {
    for (s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
      lds_dma_buffer first, second;
      const int apart = aligns[a] <= LDS_DMA_MAX_ALIGN && ((cpu_shift ^ (size_t)bus_shift) & (aligns[a] - 1u)) == 0;
      CHECK(hal.dma_alloc(hal.ctx, 3, 1, 1, &first) == LDS_HAL_OK);
      if (hal.dma_alloc(hal.ctx, sizes[s], aligns[a], 3, &second) == LDS_HAL_OK) {
        CHECK(sizes[s] <= 5000 && aligns[a] != 0 && (aligns[a] & (aligns[a] - 1u)) == 0);
        CHECK(((uintptr_t)second.cpu & (aligns[a] - 1u)) == 0 && (second.bus & (aligns[a] - 1u)) == 0);
        CHECK((uint8_t *)second.cpu >= (uint8_t *)first.cpu + 3);
        CHECK((uint8_t *)second.cpu + sizes[s] <= board.pool.cpu + board.pool.size_bytes);
        CHECK(second.bus - board.pool.bus == (uint64_t)((uint8_t *)second.cpu - board.pool.cpu));
        hal.dma_free(hal.ctx, &second);
      } else {
        CHECK(!(sizes[s] <= 5000 && apart && aligns[a] != 0 && (aligns[a] & (aligns[a] - 1u)) == 0 && bytes == BYTES - 4096u));
      }
      hal.dma_free(hal.ctx, &first);
      CHECK(board.pool.used == 0);
    }
  }
}

static size_t cleaned, invalidated;

static void clean(void *address, size_t size_bytes) {
  CHECK(address == memory + 64);
  cleaned += size_bytes;
}

static void invalidate(void *address, size_t size_bytes) {
  CHECK(address == memory + 64);
  invalidated += size_bytes;
}

/* A port may have one hook alone, as with a cache that writes through: it gets what is its own. */
static void check_hooks(int cleans, int invalidates) {
  lds_baremetal board = {0};
  lds_dma_buffer buffer = {memory, 0, 4096, 3};
  lds_hal hal;
  cleaned = invalidated = 0;
  board.now_ns = now_ns;
  board.cache_clean = cleans ? clean : NULL;
  board.cache_invalidate = invalidates ? invalidate : NULL;
  lds_baremetal_hal(&board, &hal);
  CHECK((hal.dma_sync != NULL) == (cleans || invalidates));
  if (hal.dma_sync == NULL) return;
  CHECK(hal.dma_sync(hal.ctx, &buffer, 64, 128, LDS_DMA_TO_DEVICE) == LDS_HAL_OK);
  CHECK(cleaned == (cleans ? 128u : 0u) && invalidated == 0);
  CHECK(hal.dma_sync(hal.ctx, &buffer, 64, 256, LDS_DMA_FROM_DEVICE) == LDS_HAL_OK);
  CHECK(cleaned == (cleans ? 128u : 0u) && invalidated == (invalidates ? 256u : 0u));
}

int main(void) {
  int k;
  for (k = 0; k < 4; ++k) check_hooks(k & 1, k >> 1);
  check(0, 0, BYTES - 4096u);
  check(64, 64, BYTES - 4096u);
  check(4096, 4096, BYTES - 4096u);
  check(64, 0, BYTES - 4096u);
  check(0, 4096, BYTES - 4096u);
  check(0, 0, 4096);
  return 0;
}
