/* A device that is done at once, with DMA memory in a buffer of the caller's.
 *
 * In:   the CONFIG_HASH that it claims, a buffer.
 * Out:  an lds_hal with a native register page.
 * Next: fuzz_artifact.c, sizes.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <string.h>

#include "lds_isa.h"
#include "lds_pool.h"
#include "loadstone.h"

enum { FAKE_BLOCKS = 16 };

typedef struct fake_device {
  lds_hal hal;
  lds_pool pool;
  lds_pool_block blocks[FAKE_BLOCKS];
  uint32_t config_hash, state;
} fake_device;

static uint32_t fake_read32(void *ctx, uint32_t offset) {
  const fake_device *f = ctx;
  if (offset == LDS_NATIVE_ID) return LDS_NATIVE_ID_VALUE;
  if (offset == LDS_NATIVE_VERSION) return LDS_NATIVE_VERSION_VALUE;
  if (offset == LDS_NATIVE_CONFIG_HASH) return f->config_hash;
  return offset == LDS_NATIVE_STATUS ? f->state : 0;
}

static void fake_write32(void *ctx, uint32_t offset, uint32_t value) {
  if (offset == LDS_NATIVE_CTRL) ((fake_device *)ctx)->state = value == LDS_CTRL_START ? LDS_STATE_DONE : LDS_STATE_IDLE;
}

static int fake_alloc(void *ctx, size_t size, size_t align, uint32_t flags, lds_dma_buffer *out) {
  return lds_pool_alloc(&((fake_device *)ctx)->pool, size, align, flags, out);
}

static void fake_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((fake_device *)ctx)->pool, buffer); }

static uint64_t fake_now_ns(void *ctx) {
  (void)ctx;
  return 0;
}

/* The bus address is the processor's, so that every alignment can be had. */
static void fake_device_open(fake_device *f, uint32_t config_hash, uint8_t *memory, size_t size_bytes) {
  memset(f, 0, sizeof *f);
  f->hal.abi_version = LDS_HAL_ABI_VERSION;
  f->hal.ctx = f;
  f->hal.read32 = fake_read32;
  f->hal.write32 = fake_write32;
  f->hal.dma_alloc = fake_alloc;
  f->hal.dma_free = fake_free;
  f->hal.now_ns = fake_now_ns;
  f->pool.cpu = memory;
  f->pool.bus = (uintptr_t)memory;
  f->pool.size_bytes = size_bytes;
  f->pool.blocks = f->blocks;
  f->pool.capacity = FAKE_BLOCKS;
  f->config_hash = config_hash;
}

#endif /* FAKE_DEVICE_H */
