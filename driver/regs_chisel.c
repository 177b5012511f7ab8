/* The register page of VTA's Chisel shell (DE10-Nano).
 *
 * In:   a HAL's read32 and write32.
 * Out:  lds_registers_chisel.
 * Next: runtime/run.c.
 *
 * It has no identity, no interrupt and no way to stop: a hang needs the board's hw_reset. The instruction address and
 * every address in the stream have 32 bits. The base registers are ORed into addresses: always 0.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_hal.h"
#include "lds_isa.h"

/* All registers of an empty bus read the same. Those of a device do not, because its instruction address is a multiple of 16. */
static int reads_the_same(const lds_hal *hal, uint32_t control) { return hal->read32(hal->ctx, LDS_CHISEL_INSN_BASE) == control; }

/* The instruction count reads back as written; an empty bus does not store it. */
static int identify(const lds_hal *hal, uint32_t config_hash) {
  static const uint32_t patterns[] = {0x5A5A5A5Au, 0xA5A5A5A5u};
  unsigned k;
  (void)config_hash;
  if (hal->read32(hal->ctx, LDS_CHISEL_CONTROL) == LDS_CHISEL_START) /* it is running */
    return reads_the_same(hal, LDS_CHISEL_START) ? LDS_HAL_UNSUPPORTED : LDS_HAL_OK;
  for (k = 0; k < sizeof patterns / sizeof patterns[0]; ++k) {
    hal->write32(hal->ctx, LDS_CHISEL_INSN_COUNT, patterns[k]);
    if (hal->read32(hal->ctx, LDS_CHISEL_INSN_COUNT) != patterns[k]) return LDS_HAL_UNSUPPORTED;
  }
  return LDS_HAL_OK;
}

static void start(const lds_hal *hal, const lds_job *job) {
  uint32_t base;
  hal->write32(hal->ctx, LDS_CHISEL_INSN_COUNT, job->insn_count);
  hal->write32(hal->ctx, LDS_CHISEL_INSN_BASE, (uint32_t)job->insn_bus);
  for (base = LDS_CHISEL_UOP_BASE; base <= LDS_CHISEL_OUT_BASE; base += 4u) hal->write32(hal->ctx, base, 0);
  hal->write32(hal->ctx, LDS_CHISEL_CONTROL, LDS_CHISEL_START);
}

/* CONTROL reads back as written until FINISH makes it DONE: START means that the device is running. */
static void state(const lds_hal *hal, lds_device_state *out) {
  const uint32_t control = hal->read32(hal->ctx, LDS_CHISEL_CONTROL);
  switch (control) {
    case 0:
      out->state = LDS_STATE_IDLE;
      break;
    case LDS_CHISEL_START:
      out->state = LDS_STATE_RUNNING;
      break;
    case LDS_CHISEL_DONE:
      out->state = reads_the_same(hal, control) ? LDS_ABSENT : LDS_STATE_DONE;
      break;
    default:
      out->state = control == LDS_ABSENT ? LDS_ABSENT : LDS_STATE_ERROR;
  }
  out->error = LDS_ERROR_NONE;
  out->error_pc = out->error_addr = out->insn_pc = 0;
}

static void irq_clear(const lds_hal *hal) { (void)hal; }

static int stop(const lds_hal *hal, int how) {
  (void)hal;
  (void)how;
  return LDS_HAL_UNSUPPORTED;
}

static void counters(const lds_hal *hal, lds_counters *out) { out->cycles = hal->read32(hal->ctx, LDS_CHISEL_CYCLES); }

const lds_register_block lds_registers_chisel = {
    "vta-chisel", LDS_BLOCK_BUS_32 | LDS_BLOCK_NO_IRQ | LDS_BLOCK_IDLE, identify, start, state, irq_clear, stop, counters,
};
