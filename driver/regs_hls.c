/* The four register blocks of VTA's HLS design (PYNQ, Ultra96, ZCU104): fetch, load, compute, store, 4 KiB apart.
 *
 * In:   a HAL's read32 and write32 over all four pages.
 * Out:  lds_registers_hls.
 * Next: runtime/run.c.
 *
 * It has no identity, no interrupt and no way to stop: a hang needs the board's hw_reset (a new bitstream). Addresses have
 * 32 bits; the base registers are added to them: always 0. Fetch runs once, the other blocks restart by themselves.
 *
 * COMPUTE_DONE keeps the 1 of the last program until compute has taken its first instruction, which may wait for a load; the valid bit
 * tells whether it was written since. docs/runtime.md (When a program is done) has the whole rule.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "lds_hal.h"
#include "lds_isa.h"

static uint32_t get(const lds_hal *hal, uint32_t offset) { return hal->read32(hal->ctx, offset); }

static void put(const lds_hal *hal, uint32_t offset, uint32_t value) { hal->write32(hal->ctx, offset, value); }

/* The instruction count reads back as written; an empty bus does not store it, and all its registers read the same. Those of a running
 * device do not, because its instruction address is a multiple of 16. */
static int identify(const lds_hal *hal, uint32_t config_hash) {
  static const uint32_t patterns[] = {0x5A5A5A5Au, 0xA5A5A5A5u};
  unsigned k;
  const uint32_t control = get(hal, LDS_HLS_FETCH_CONTROL);
  (void)config_hash;
  if ((control & (LDS_HLS_START | LDS_HLS_IDLE)) == LDS_HLS_START) /* it is running */
    return get(hal, LDS_HLS_FETCH_INSN_BASE) == control ? LDS_HAL_UNSUPPORTED : LDS_HAL_OK;
  for (k = 0; k < sizeof patterns / sizeof patterns[0]; ++k) {
    put(hal, LDS_HLS_FETCH_INSN_COUNT, patterns[k]);
    if (get(hal, LDS_HLS_FETCH_INSN_COUNT) != patterns[k]) return LDS_HAL_UNSUPPORTED;
  }
  return LDS_HAL_OK;
}

/* Fetch is started last, so that a process that is killed in between leaves nothing in a queue. */
static void start(const lds_hal *hal, const lds_job *job) {
  static const uint16_t bases[] = {LDS_HLS_LOAD_INP_BASE, LDS_HLS_LOAD_WGT_BASE, LDS_HLS_COMPUTE_UOP_BASE, LDS_HLS_COMPUTE_BIAS_BASE,
                                   LDS_HLS_STORE_OUT_BASE};
  unsigned k;
  put(hal, LDS_HLS_FETCH_INSN_COUNT, job->insn_count);
  put(hal, LDS_HLS_FETCH_INSN_BASE, (uint32_t)job->insn_bus);
  for (k = 0; k < sizeof bases / sizeof bases[0]; ++k) put(hal, bases[k], 0);
  put(hal, LDS_HLS_LOAD_CONTROL, LDS_HLS_AUTO_RESTART);
  put(hal, LDS_HLS_COMPUTE_CONTROL, LDS_HLS_AUTO_RESTART);
  put(hal, LDS_HLS_STORE_CONTROL, LDS_HLS_AUTO_RESTART);
  (void)get(hal, LDS_HLS_COMPUTE_DONE_VALID); /* cleared on read */
  put(hal, LDS_HLS_FETCH_CONTROL, LDS_HLS_START);
}

/* The valid bit is read before DONE, so that the value of DONE was written by this program. */
static void state(const lds_hal *hal, lds_device_state *out) {
  const uint32_t fetch = get(hal, LDS_HLS_FETCH_CONTROL), compute = get(hal, LDS_HLS_COMPUTE_CONTROL);
  uint32_t done;
  out->seen |= get(hal, LDS_HLS_COMPUTE_DONE_VALID) & LDS_HLS_VALID;
  done = get(hal, LDS_HLS_COMPUTE_DONE);
  out->error = LDS_ERROR_NONE;
  out->error_pc = out->error_addr = out->insn_pc = 0;
  if (fetch == LDS_ABSENT || compute == LDS_ABSENT || done == LDS_ABSENT) {
    out->state = LDS_ABSENT;
  } else if (done > 1u) { /* compute writes 0 and 1 */
    out->state = LDS_STATE_ERROR;
  } else if ((compute & LDS_HLS_START) == 0) {
    out->state = LDS_STATE_IDLE; /* it was never started, or the design was loaded again */
  } else {
    out->state = out->seen != 0 && (fetch & LDS_HLS_IDLE) != 0 && done != 0 ? LDS_STATE_DONE : LDS_STATE_RUNNING;
  }
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
    "vta-hls", LDS_BLOCK_BUS_32 | LDS_BLOCK_NO_IRQ | LDS_BLOCK_IDLE, identify, start, state, irq_clear, stop, counters,
};
