/* The vector engine's registers: it is fed, and fetches nothing.
 *
 * In:   a HAL's read32 and write32; a job with its instructions as the CPU sees them.
 * Out:  vector_engine_registers.
 * Next: a session uses it (lds_hal.h).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_hal.h"

enum { HASH = 0, WORDS = 4, COUNT = 8, FIFO = 12, ROOM = 16, STATE = 20, AT = 24, CAUSE = 28, CYCLES = 32, IRQ = 36, RESET = 40 };
/* Looks at a full FIFO before it is given up: the session then finds a device that makes no progress. */
enum { PATIENCE = 1000000 };

extern const lds_register_block vector_engine_registers;

/* The device's states as the runtime counts them: IDLE 1, RUNNING 2, DONE 3, ERROR 4. */
static const uint32_t states[] = {1, 2, 3, 4};

static int identify(const lds_hal *hal, uint32_t config_hash) {
  return hal->read32(hal->ctx, HASH) == config_hash ? LDS_HAL_OK : LDS_HAL_FAILED;
}

static uint32_t room_for_words(const lds_hal *hal) {
  uint32_t tries, room = 0;
  for (tries = 0; room == 0 && tries < PATIENCE; ++tries) room = hal->read32(hal->ctx, ROOM);
  return room;
}

/* The last word starts it. */
static void start(const lds_hal *hal, const lds_job *job) {
  const uint8_t *p = job->insn_cpu, *const end = p + job->insn_bytes;
  uint32_t room = 0;
  hal->write32(hal->ctx, WORDS, job->insn_bytes / 4u);
  hal->write32(hal->ctx, COUNT, job->insn_count);
  for (; p < end; p += 4, --room) {
    if (room == 0 && (room = room_for_words(hal)) == 0) return;
    hal->write32(hal->ctx, FIFO, (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
  }
}

static void state(const lds_hal *hal, lds_device_state *out) {
  out->state = states[hal->read32(hal->ctx, STATE) & 3u];
  out->insn_pc = out->error_pc = hal->read32(hal->ctx, AT);
  out->error = hal->read32(hal->ctx, CAUSE);
}

static void irq_clear(const lds_hal *hal) { hal->write32(hal->ctx, IRQ, 1); }

static int stop(const lds_hal *hal, int how) {
  (void)how; /* there is one way */
  hal->write32(hal->ctx, RESET, 1);
  return LDS_HAL_OK;
}

static void counters(const lds_hal *hal, lds_counters *out) { out->cycles = out->compute_busy_cycles = hal->read32(hal->ctx, CYCLES); }

const lds_register_block vector_engine_registers = {
    "vector_engine", LDS_BLOCK_PROGRESS | LDS_BLOCK_BUS_32, identify, start, state, irq_clear, stop, counters,
};
