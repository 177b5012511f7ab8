/* The HAL of the simulator in this process: memory from a pool, registers and interrupt of lds_simdev.
 *
 * In:   a device configuration.
 * Out:  an lds_hal.
 * Next: runtime/session.c.
 *
 * In shadow mode the device sees a second copy of the pool, and only dma_sync moves data between the two: a
 * missing synchronisation shows as a wrong result, as it would on a board with caches.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <string.h>
#include <time.h>

#include "heap.h"
#include "lds_hal_sim.h"
#include "lds_pool.h"

enum { BLOCKS = 4096 };

static const uint64_t pool_bus = 0x10000000u; /* a multiple of LDS_DMA_MAX_ALIGN */

struct lds_hal_sim {
  lds_hal hal;
  lds_simdev *device;
  lds_hal_sim *memory; /* the owner of the pool that it uses: itself, or the device whose memory it shares */
  void *heap;          /* the pool's memory */
  lds_pool pool;
  uint8_t *shadow; /* the device's copy; NULL: it uses the pool itself */
  lds_pool_block blocks[BLOCKS];
};

static uint32_t read32(void *ctx, uint32_t offset) { return lds_simdev_read32(((lds_hal_sim *)ctx)->device, offset); }

static void write32(void *ctx, uint32_t offset, uint32_t value) { lds_simdev_write32(((lds_hal_sim *)ctx)->device, offset, value); }

static int dma_alloc(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  return lds_pool_alloc(&((lds_hal_sim *)ctx)->memory->pool, size_bytes, align_bytes, flags, out);
}

static void dma_free(void *ctx, lds_dma_buffer *buffer) { lds_pool_free(&((lds_hal_sim *)ctx)->memory->pool, buffer); }

static int dma_sync(void *ctx, const lds_dma_buffer *buffer, size_t offset, size_t size_bytes, int direction) {
  const lds_hal_sim *sim = ((lds_hal_sim *)ctx)->memory;
  uint8_t *cpu = (uint8_t *)buffer->cpu + offset;
  uint8_t *device = sim->shadow + (buffer->bus - pool_bus) + offset;
  if (offset > buffer->size_bytes || size_bytes > buffer->size_bytes - offset) return LDS_HAL_FAILED;
  if (direction == LDS_DMA_TO_DEVICE) {
    memcpy(device, cpu, size_bytes);
  } else {
    memcpy(cpu, device, size_bytes);
  }
  return LDS_HAL_OK;
}

static int irq_wait(void *ctx, uint64_t timeout_ns) {
  return lds_simdev_irq_wait(((lds_hal_sim *)ctx)->device, timeout_ns) != 0 ? LDS_HAL_OK : LDS_HAL_TIMEOUT;
}

static uint64_t now_ns(void *ctx) {
  struct timespec t;
  (void)ctx;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The registers are not polled while the device's thread runs, because it needs the processor and the lock of its registers. */
static void rest(void *ctx, uint64_t ns) { lds_simdev_idle_wait(((lds_hal_sim *)ctx)->device, ns); }

static void counters(void *counters_ctx, lds_counters *out) {
  lds_sim_result last;
  uint32_t k;
  (void)lds_simdev_result(((lds_hal_sim *)counters_ctx)->device, &last);
  out->cycles = last.cycles;
  out->load_busy_cycles = last.busy_cycles[LDS_STAGE_LOAD];
  out->compute_busy_cycles = last.busy_cycles[LDS_STAGE_COMPUTE];
  out->store_busy_cycles = last.busy_cycles[LDS_STAGE_STORE];
  for (k = 0; k < sizeof last.read_bytes / sizeof last.read_bytes[0]; ++k) out->read_bytes += last.read_bytes[k];
  out->write_bytes = last.write_bytes;
}

static int hw_reset(void *ctx) {
  lds_simdev_hw_reset(((lds_hal_sim *)ctx)->device);
  return LDS_HAL_OK;
}

static int open_memory(lds_hal_sim *sim, size_t pool_bytes, uint32_t flags) {
  sim->memory = sim;
  sim->pool.cpu = lds_heap_alloc(pool_bytes, &sim->heap);
  if (sim->pool.cpu == NULL) return 0;
  sim->pool.bus = pool_bus;
  sim->pool.size_bytes = pool_bytes;
  sim->pool.blocks = sim->blocks;
  sim->pool.capacity = BLOCKS;
  if ((flags & LDS_HAL_SIM_SHADOW) != 0) {
    sim->shadow = calloc(1, pool_bytes);
    if (sim->shadow == NULL) return 0;
    sim->hal.dma_sync = dma_sync;
  }
  return lds_simdev_map(sim->device, pool_bus, sim->shadow != NULL ? sim->shadow : sim->pool.cpu, pool_bytes, 0) == LDS_SIM_OK;
}

/* Uses the memory of another device. */
static int share_memory(lds_hal_sim *sim, lds_hal_sim *memory) {
  uint8_t *bytes;
  uint64_t bus;
  size_t size_bytes;
  sim->memory = memory;
  if (memory->hal.dma_sync != NULL) sim->hal.dma_sync = dma_sync;
  lds_hal_sim_memory(memory, &bytes, &bus, &size_bytes);
  return lds_simdev_map(sim->device, bus, bytes, size_bytes, 0) == LDS_SIM_OK;
}

/* Creates everything but the memory; NULL as lds_hal_sim_create. */
static lds_hal_sim *create(const lds_hw_config *config, uint32_t bus_bits, int registers) {
  lds_hal_sim *sim = calloc(1, sizeof *sim);
  if (sim == NULL) return NULL;
  sim->hal.abi_version = LDS_HAL_ABI_VERSION;
  sim->hal.ctx = sim;
  sim->hal.read32 = read32;
  sim->hal.write32 = write32;
  sim->hal.dma_alloc = dma_alloc;
  sim->hal.dma_free = dma_free;
  sim->hal.irq_wait = irq_wait;
  sim->hal.now_ns = now_ns;
  sim->hal.hw_reset = hw_reset;
  sim->hal.rest = rest;
  sim->hal.counters = counters;
  sim->hal.counters_ctx = sim;
  sim->device = lds_simdev_create(config, bus_bits, registers);
  if (sim->device == NULL) {
    free(sim);
    return NULL;
  }
  return sim;
}

static lds_hal_sim *kept_if(int sound, lds_hal_sim *sim) {
  if (!sound) lds_hal_sim_destroy(sim);
  return sound ? sim : NULL;
}

lds_hal_sim *lds_hal_sim_create(const lds_hw_config *config, uint32_t bus_bits, int registers, size_t pool_bytes, uint32_t flags) {
  lds_hal_sim *sim = create(config, bus_bits, registers);
  return kept_if(sim != NULL && open_memory(sim, pool_bytes, flags), sim);
}

lds_hal_sim *lds_hal_sim_create_beside(lds_hal_sim *first, const lds_hw_config *config, uint32_t bus_bits, int registers) {
  lds_hal_sim *sim = create(config, bus_bits, registers);
  return kept_if(sim != NULL && share_memory(sim, first->memory), sim);
}

void lds_hal_sim_destroy(lds_hal_sim *sim) {
  if (sim == NULL) return;
  if (sim->device != NULL) {
    lds_simdev_hw_reset(sim->device); /* this also discards a job that was started but not yet picked up */
    lds_simdev_destroy(sim->device);
  }
  free(sim->shadow);
  free(sim->heap);
  free(sim);
}

void lds_hal_sim_quit(lds_hal_sim *sim) { lds_simdev_quit(sim->device); }

const lds_hal *lds_hal_sim_hal(lds_hal_sim *sim) { return &sim->hal; }

void lds_hal_sim_memory(lds_hal_sim *sim, uint8_t **bytes, uint64_t *bus, size_t *size_bytes) {
  *bytes = sim->shadow != NULL ? sim->shadow : sim->pool.cpu;
  *bus = pool_bus;
  *size_bytes = sim->pool.size_bytes;
}

lds_simdev *lds_hal_sim_device(lds_hal_sim *sim) { return sim->device; }
