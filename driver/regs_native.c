/* The native register page.
 *
 * In:   a HAL's read32 and write32.
 * Out:  lds_registers_native.
 * Next: runtime/run.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_hal.h"
#include "lds_isa.h"

static uint32_t get(const lds_hal *hal, uint32_t offset) { return hal->read32(hal->ctx, offset); }

static void put(const lds_hal *hal, uint32_t offset, uint32_t value) { hal->write32(hal->ctx, offset, value); }

static void put64(const lds_hal *hal, uint32_t offset, uint64_t value) {
  put(hal, offset, (uint32_t)value);
  put(hal, offset + 4u, (uint32_t)(value >> 32));
}

static uint64_t get64(const lds_hal *hal, uint32_t offset) {
  const uint64_t low = get(hal, offset);
  return low | (uint64_t)get(hal, offset + 4u) << 32;
}

static int identify(const lds_hal *hal, uint32_t config_hash) {
  if (get(hal, LDS_NATIVE_ID) != LDS_NATIVE_ID_VALUE) return LDS_HAL_UNSUPPORTED;
  if (get(hal, LDS_NATIVE_VERSION) != LDS_NATIVE_VERSION_VALUE) return LDS_HAL_FAILED;
  return get(hal, LDS_NATIVE_CONFIG_HASH) == config_hash ? LDS_HAL_OK : LDS_HAL_FAILED;
}

static void start(const lds_hal *hal, const lds_job *job) {
  uint32_t r;
  for (r = 0; r < LDS_MAX_REGIONS; ++r) {
    const uint64_t read_only = (job->writable >> r & 1u) != 0 ? 0 : (uint64_t)LDS_REGION_READ_ONLY_HI << 32;
    put64(hal, LDS_NATIVE_REGION_BASE + r * LDS_NATIVE_REGION_BASE_STRIDE, job->region_bus[r]);
    put64(hal, LDS_NATIVE_REGION_LIMIT + r * LDS_NATIVE_REGION_LIMIT_STRIDE, job->region_size_bytes[r] | read_only);
  }
  put64(hal, LDS_NATIVE_INSN_BASE_LO, job->insn_bus);
  put(hal, LDS_NATIVE_INSN_COUNT, job->insn_count);
  put(hal, LDS_NATIVE_IRQ_STATUS, LDS_IRQ_DONE | LDS_IRQ_ERROR);
  put(hal, LDS_NATIVE_IRQ_MASK, LDS_IRQ_DONE | LDS_IRQ_ERROR);
  put(hal, LDS_NATIVE_CTRL, LDS_CTRL_START);
}

/* Accepts DONE only from a device that is still present: an empty bus may read as any value. What is wrong is read where something is. */
static void state(const lds_hal *hal, lds_device_state *out) {
  out->insn_pc = get(hal, LDS_NATIVE_INSN_PC);
  out->state = get(hal, LDS_NATIVE_STATUS);
  if (out->state == LDS_STATE_RUNNING) return;
  if (out->state == LDS_STATE_DONE) {
    if (get(hal, LDS_NATIVE_ID) != LDS_NATIVE_ID_VALUE) out->state = LDS_ABSENT;
    return;
  }
  out->error = get(hal, LDS_NATIVE_ERROR);
  out->error_pc = get(hal, LDS_NATIVE_ERROR_PC);
  out->error_addr = get(hal, LDS_NATIVE_ERROR_ADDR);
}

static void irq_clear(const lds_hal *hal) { put(hal, LDS_NATIVE_IRQ_STATUS, LDS_IRQ_DONE | LDS_IRQ_ERROR); }

static int stop(const lds_hal *hal, int how) {
  put(hal, LDS_NATIVE_CTRL, how == LDS_STOP_ABORT ? LDS_CTRL_ABORT : LDS_CTRL_SOFT_RESET);
  return LDS_HAL_OK;
}

static void counters(const lds_hal *hal, lds_counters *out) {
  out->cycles = get64(hal, LDS_NATIVE_CYCLES);
  out->load_busy_cycles = get64(hal, LDS_NATIVE_LOAD_BUSY);
  out->compute_busy_cycles = get64(hal, LDS_NATIVE_COMPUTE_BUSY);
  out->store_busy_cycles = get64(hal, LDS_NATIVE_STORE_BUSY);
  out->read_bytes = get64(hal, LDS_NATIVE_READ_BYTES);
  out->write_bytes = get64(hal, LDS_NATIVE_WRITE_BYTES);
}

const lds_register_block lds_registers_native = {
    "native", LDS_BLOCK_REGIONS | LDS_BLOCK_PROGRESS | LDS_BLOCK_IDLE, identify, start, state, irq_clear, stop, counters,
};
