/* Gemmini's command queue: each instruction of the table is one command, the function and two 64-bit values.
 *
 * In:   a HAL; a job's instructions of 20 bytes.
 * Out:  gemmini_registers.
 * Next: gemmini.py has the device's side, CommandPage. On a Rocket core `push` is one custom instruction.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_hal.h"

enum { HASH = 0, TOTAL = 4, FUNCT = 8, RS1 = 12, RS2 = 20, ROOM = 28, STATE = 32, AT = 36, CAUSE = 40, CYCLES = 44, IRQ = 48, RESET = 52 };
enum { COMMAND_BYTES = 20, PATIENCE = 1000000 };

extern const lds_register_block gemmini_registers;
static const uint32_t states[] = {1, 2, 3, 4};

static uint32_t word(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

static int identify(const lds_hal *hal, uint32_t config_hash) {
  return hal->read32(hal->ctx, HASH) == config_hash ? LDS_HAL_OK : LDS_HAL_FAILED;
}

/* Waits until the queue has room: how many commands; 0 where it never has. */
static uint32_t room_of(const lds_hal *hal) {
  uint32_t tries, room = 0;
  for (tries = 0; room == 0 && tries < PATIENCE; ++tries) room = hal->read32(hal->ctx, ROOM);
  return room;
}

static void start(const lds_hal *hal, const lds_job *job) {
  const uint8_t *p = job->insn_cpu, *const end = p + job->insn_bytes;
  uint32_t room = 0, k;
  hal->write32(hal->ctx, TOTAL, job->insn_count);
  for (; p < end; p += COMMAND_BYTES, --room) {
    if (room == 0) room = room_of(hal);
    if (room == 0) return; /* the job's time limit says so */
    hal->write32(hal->ctx, FUNCT, word(p) >> 25);
    for (k = 0; k < 4; ++k) hal->write32(hal->ctx, RS1 + 4u * k, word(p + 4u + 4u * k)); /* the last one takes the command */
  }
}

static void state(const lds_hal *hal, lds_device_state *out) {
  out->state = states[hal->read32(hal->ctx, STATE) & 3u];
  out->insn_pc = out->error_pc = hal->read32(hal->ctx, AT);
  out->error = hal->read32(hal->ctx, CAUSE);
}

static void irq_clear(const lds_hal *hal) { hal->write32(hal->ctx, IRQ, 1); }

static int stop(const lds_hal *hal, int how) {
  (void)how;
  hal->write32(hal->ctx, RESET, 1);
  return LDS_HAL_OK;
}

static void counters(const lds_hal *hal, lds_counters *out) { out->cycles = out->compute_busy_cycles = hal->read32(hal->ctx, CYCLES); }

const lds_register_block gemmini_registers = {"gemmini", LDS_BLOCK_PROGRESS, identify, start, state, irq_clear, stop, counters};
