/* The functions of lds_hal_baremetal.h.
 *
 * In:   the port's struct.
 * Out:  callbacks over it.
 * Next: -
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_hal_baremetal.h"
#include "mmio.h"

static uint32_t read32(void *ctx, uint32_t offset) { return lds_mmio_read(((lds_baremetal *)ctx)->registers, offset); }

static void write32(void *ctx, uint32_t offset, uint32_t value) { lds_mmio_write(((lds_baremetal *)ctx)->registers, offset, value); }

static int dma_alloc(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  return lds_pool_alloc(&((lds_baremetal *)ctx)->pool, size_bytes, align_bytes, flags, out);
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((lds_baremetal *)ctx)->pool, buffer); }

/* A port may provide only one of the two hooks: a write-through cache needs no cleaning, and memory that is not cached no invalidation. */
static int dma_sync(void *ctx, const lds_dma_buffer *buffer, size_t offset, size_t size_bytes, int direction) {
  const lds_baremetal *board = ctx;
  void (*const hook)(void *, size_t) = direction == LDS_DMA_TO_DEVICE ? board->cache_clean : board->cache_invalidate;
  if (hook != NULL) hook((uint8_t *)buffer->cpu + offset, size_bytes);
  return LDS_HAL_OK;
}

static uint64_t now_ns(void *ctx) { return ((const lds_baremetal *)ctx)->now_ns(); }

static int irq_wait(void *ctx, uint64_t timeout_ns) {
  lds_baremetal *board = ctx;
  const uint64_t begin = board->now_ns();
  while (board->interrupted == 0) {
    if (board->now_ns() - begin >= timeout_ns) return LDS_HAL_TIMEOUT;
    if (board->sleep != NULL) board->sleep(board->irq);
  }
  return LDS_HAL_OK;
}

static int irq_ack(void *ctx) {
  lds_baremetal *board = ctx;
  board->interrupted = 0;
  board->irq_enable(board->irq, 1);
  return LDS_HAL_OK;
}

static int hw_reset(void *ctx) { return ((const lds_baremetal *)ctx)->reset(); }

void lds_baremetal_hal(lds_baremetal *board, lds_hal *out) {
  const int interrupts = board->irq_enable != NULL;
  out->abi_version = LDS_HAL_ABI_VERSION;
  out->ctx = board;
  out->read32 = read32;
  out->write32 = write32;
  out->dma_alloc = dma_alloc;
  out->dma_free = dma_free;
  out->dma_sync = board->cache_clean != NULL || board->cache_invalidate != NULL ? dma_sync : NULL;
  out->irq_wait = interrupts ? irq_wait : NULL;
  out->irq_ack = interrupts ? irq_ack : NULL;
  out->now_ns = now_ns;
  out->hw_reset = board->reset != NULL ? hw_reset : NULL;
  out->rest = NULL;
  out->counters = NULL;
  board->interrupted = 0;
  if (interrupts) board->irq_enable(board->irq, 1);
}

void lds_baremetal_interrupt(lds_baremetal *board) {
  board->irq_enable(board->irq, 0);
  board->interrupted = 1;
}
