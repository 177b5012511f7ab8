/* The four register blocks of VTA's HLS design (PYNQ, Ultra96, ZCU104): fetch, load, compute, store, 4 KiB apart.
 *
 * In:   a HAL's read32 and write32 over all four pages.
 * Out:  lds_registers_hls.
 * Next: runtime/run.c.
 *
 * It has no identity, no interrupt and no way to stop: a hang needs the board's hw_reset (a new bitstream). Addresses have
 * 32 bits; the base registers are added to them: always 0. Fetch runs once, the other blocks restart by themselves.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_hal.h"
#include "lds_isa.h"

static int identify(const lds_hal *hal, uint32_t config_hash) {
  (void)hal;
  (void)config_hash;
  return LDS_HAL_OK;
}

static void start(const lds_hal *hal, const lds_job *job) {
  static const uint16_t bases[] = {LDS_HLS_LOAD_INP_BASE, LDS_HLS_LOAD_WGT_BASE, LDS_HLS_COMPUTE_UOP_BASE, LDS_HLS_COMPUTE_BIAS_BASE,
                                   LDS_HLS_STORE_OUT_BASE};
  unsigned k;
  hal->write32(hal->ctx, LDS_HLS_FETCH_INSN_COUNT, job->insn_count);
  hal->write32(hal->ctx, LDS_HLS_FETCH_INSN_BASE, (uint32_t)job->insn_bus);
  for (k = 0; k < sizeof bases / sizeof bases[0]; ++k) hal->write32(hal->ctx, bases[k], 0);
  hal->write32(hal->ctx, LDS_HLS_FETCH_CONTROL, LDS_HLS_START);
  hal->write32(hal->ctx, LDS_HLS_LOAD_CONTROL, LDS_HLS_AUTO_RESTART);
  hal->write32(hal->ctx, LDS_HLS_COMPUTE_CONTROL, LDS_HLS_AUTO_RESTART);
  hal->write32(hal->ctx, LDS_HLS_STORE_CONTROL, LDS_HLS_AUTO_RESTART);
}

static void state(const lds_hal *hal, lds_device_state *out) {
  const uint32_t done = hal->read32(hal->ctx, LDS_HLS_COMPUTE_DONE);
  out->state = done == 1u ? LDS_STATE_DONE : LDS_STATE_RUNNING;
  out->error = LDS_ERROR_NONE;
  out->error_pc = out->error_addr = out->insn_pc = 0;
}

static void irq_clear(const lds_hal *hal) { (void)hal; }

static int stop(const lds_hal *hal, int how) {
  (void)hal;
  (void)how;
  return LDS_HAL_UNSUPPORTED;
}

static void counters(const lds_hal *hal, lds_counters *out) {
  (void)hal;
  (void)out;
}

const lds_register_block lds_registers_hls = {
    "vta-hls", LDS_BLOCK_BUS_32 | LDS_BLOCK_NO_IRQ, identify, start, state, irq_clear, stop, counters,
};
