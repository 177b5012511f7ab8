/* A bare-metal board's DMA memory: both addresses aligned, and no size or alignment that makes an offset wrap.
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

int main(void) {
  check(0, 0, BYTES - 4096u);
  check(64, 64, BYTES - 4096u);
  check(4096, 4096, BYTES - 4096u);
  check(64, 0, BYTES - 4096u);
  check(0, 4096, BYTES - 4096u);
  check(0, 0, 4096);
  return 0;
}
