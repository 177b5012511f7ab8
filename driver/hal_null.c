/* A device that completes every program at once and computes nothing, to measure the host alone.
 *
 * In:   the CONFIG_HASH it should claim.
 * Out:  an lds_hal with a native register page.
 * Next: runtime/session.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <time.h>

#include "heap.h"
#include "lds_hal_sim.h"
#include "lds_isa.h"
#include "lds_pool.h"

enum { BLOCKS = 256 };

struct lds_hal_null {
  lds_hal hal;
  uint32_t config_hash, state;
  void *heap; /* the pool's memory */
  lds_pool pool;
  lds_pool_block blocks[BLOCKS];
};

static uint32_t read32(void *ctx, uint32_t offset) {
  const lds_hal_null *device = ctx;
  switch (offset) {
    case LDS_NATIVE_ID:
      return LDS_NATIVE_ID_VALUE;
    case LDS_NATIVE_VERSION:
      return LDS_NATIVE_VERSION_VALUE;
    case LDS_NATIVE_CONFIG_HASH:
      return device->config_hash;
    case LDS_NATIVE_STATUS:
      return device->state;
    default:
      return 0;
  }
}

static void write32(void *ctx, uint32_t offset, uint32_t value) {
  lds_hal_null *device = ctx;
  if (offset == LDS_NATIVE_CTRL) device->state = (value & LDS_CTRL_START) != 0 ? LDS_STATE_DONE : LDS_STATE_IDLE;
}

static int dma_alloc(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  return lds_pool_alloc(&((lds_hal_null *)ctx)->pool, size_bytes, align_bytes, flags, out);
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((lds_hal_null *)ctx)->pool, buffer); }

static uint64_t now_ns(void *ctx) {
  struct timespec t;
  (void)ctx;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

lds_hal_null *lds_hal_null_create(uint32_t config_hash, size_t pool_bytes) {
  lds_hal_null *device = calloc(1, sizeof *device);
  if (device == NULL) return NULL;
  device->pool.cpu = lds_heap_alloc(pool_bytes, &device->heap);
  if (device->pool.cpu == NULL) {
    free(device);
    return NULL;
  }
  device->pool.size_bytes = pool_bytes;
  device->pool.blocks = device->blocks;
  device->pool.capacity = BLOCKS;
  device->config_hash = config_hash;
  device->state = LDS_STATE_IDLE;
  device->hal.abi_version = LDS_HAL_ABI_VERSION;
  device->hal.ctx = device;
  device->hal.read32 = read32;
  device->hal.write32 = write32;
  device->hal.dma_alloc = dma_alloc;
  device->hal.dma_free = dma_free;
  device->hal.now_ns = now_ns;
  return device;
}

void lds_hal_null_destroy(lds_hal_null *device) {
  if (device == NULL) return;
  free(device->heap);
  free(device);
}

const lds_hal *lds_hal_null_hal(lds_hal_null *device) { return &device->hal; }
