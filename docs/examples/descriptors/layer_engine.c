/* The layer engine's registers, and what its table cannot say.
 *
 * In:   a HAL's read32 and write32; a descriptor that the table accepts.
 * Out:  layer_engine_registers; layer_engine_refuse.
 * Next: a session uses both (lds_accelerator.h, lds_hal.h).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_accelerator.h"
#include "lds_hal.h"

enum { HASH = 0, FIRST = 4, COUNT = 8, GO = 12, STATE = 16, AT = 20, CAUSE = 24, CYCLES = 28, IRQ = 32 };
enum { GO_START = 1, GO_RESET = 2 };
enum { FIELD_LOW = 0, FIELD_HIGH = 1 }; /* numbers of fields, from 0, in every descriptor */

extern const lds_register_block layer_engine_registers;
int layer_engine_refuse(const lds_insn_seen *seen);

/* The device's states as the runtime counts them: RESET 0, IDLE 1, RUNNING 2, DONE 3, ERROR 4. */
static const uint32_t states[] = {1, 2, 3, 4};

static int identify(const lds_hal *hal, uint32_t config_hash) {
  return hal->read32(hal->ctx, HASH) == config_hash ? LDS_HAL_OK : LDS_HAL_FAILED;
}

static void start(const lds_hal *hal, const lds_job *job) {
  hal->write32(hal->ctx, FIRST, (uint32_t)job->insn_bus); /* LDS_BLOCK_BUS_32: it has 32 bits */
  hal->write32(hal->ctx, COUNT, job->insn_count);
  hal->write32(hal->ctx, GO, GO_START);
}

static void state(const lds_hal *hal, lds_device_state *out) {
  out->state = states[hal->read32(hal->ctx, STATE) & 3u];
  out->insn_pc = out->error_pc = hal->read32(hal->ctx, AT);
  out->error = hal->read32(hal->ctx, CAUSE);
}

static void irq_clear(const lds_hal *hal) { hal->write32(hal->ctx, IRQ, 1); }

static int stop(const lds_hal *hal, int how) {
  (void)how; /* there is one way */
  hal->write32(hal->ctx, GO, GO_RESET);
  return LDS_HAL_OK;
}

static void counters(const lds_hal *hal, lds_counters *out) { out->cycles = out->compute_busy_cycles = hal->read32(hal->ctx, CYCLES); }

const lds_register_block layer_engine_registers = {
    "layer_engine", LDS_BLOCK_PROGRESS | LDS_BLOCK_BUS_32, identify, start, state, irq_clear, stop, counters,
};

/* An interval of values that is empty. */
int layer_engine_refuse(const lds_insn_seen *seen) { return (int64_t)seen->value[FIELD_LOW] > (int64_t)seen->value[FIELD_HIGH]; }
