/* fake_device.h's device, with the simulator behind its registers: a job runs while it is started.
 *
 * In:   the device of an opened model, memory of the caller's at a multiple of LDS_DMA_MAX_ALIGN.
 * Out:  an lds_hal; abort() where the simulator does not execute what was validated.
 * Next: fuzz_artifact.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIMULATED_DEVICE_H
#define SIMULATED_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include "fake_device.h"
#include "lds_sim.h"

enum { SIMULATED_KINDS = 8, SIMULATED_BYTES = 1 << 24, CYCLE_LIMIT = 20000, FINGERPRINT_BYTES = sizeof(lds_hw_config) };

static const uint64_t simulated_bus = 0x10000000u; /* such that a device without regions can name every tile */

typedef struct simulated_device {
  fake_device fake; /* first: its functions get the whole */
  lds_sim *sim;
  uint32_t insn_base[2], insn_count, base[LDS_MAX_REGIONS][2], limit[LDS_MAX_REGIONS][2];
} simulated_device;

/* Bytes of the scratchpads, of which the simulator makes a few copies. */
static uint64_t scratchpads_of(const lds_hw_config *c) {
  return ((uint64_t)1 << (c->log_inp_buff & 31u)) + ((uint64_t)1 << (c->log_wgt_buff & 31u)) + ((uint64_t)1 << (c->log_acc_buff & 31u));
}

/* One for each fingerprint; the last few are kept, as one costs more than a run. NULL: there is no such device, or a large one. */
static lds_sim *simulator_of(const uint8_t *fingerprint) {
  static uint8_t known[SIMULATED_KINDS][FINGERPRINT_BYTES];
  static lds_sim *made[SIMULATED_KINDS];
  static unsigned next;
  lds_hw_config config;
  unsigned k;
  for (k = 0; k < SIMULATED_KINDS; ++k) {
    if (made[k] != NULL && memcmp(known[k], fingerprint, FINGERPRINT_BYTES) == 0) return made[k];
  }
  memcpy(&config, fingerprint, sizeof config);
  if (scratchpads_of(&config) > SIMULATED_BYTES) return NULL;
  k = next++ % SIMULATED_KINDS;
  if (made[k] != NULL) lds_sim_destroy(made[k]);
  made[k] = lds_sim_create(&config, 64);
  memcpy(known[k], fingerprint, FINGERPRINT_BYTES);
  if (made[k] != NULL) (void)lds_sim_set_option(made[k], LDS_SIM_TIMING, 0);
  return made[k];
}

static uint64_t simulated_pair(const uint32_t pair[2]) { return (uint64_t)pair[1] << 32 | pair[0]; }

static void simulated_start(simulated_device *d) {
  lds_sim_result result;
  uint32_t r;
  int status;
  lds_sim_unmap_all(d->sim);
  if (lds_sim_map(d->sim, simulated_bus, d->fake.pool.cpu, d->fake.pool.size_bytes, 0) != LDS_SIM_OK) abort();
  for (r = 0; r < LDS_MAX_REGIONS; ++r) (void)lds_sim_set_region(d->sim, r, simulated_pair(d->base[r]), simulated_pair(d->limit[r]));
  status = lds_sim_run(d->sim, simulated_pair(d->insn_base), d->insn_count, CYCLE_LIMIT, &result);
  if (status != (int)LDS_ERROR_NONE && status != (int)LDS_ERROR_CYCLE_LIMIT) {
    (void)fprintf(stderr, "validated, and not executed: %s\n", lds_sim_message(d->sim));
    abort();
  }
  d->fake.state = LDS_STATE_DONE;
}

static void simulated_write32(void *ctx, uint32_t offset, uint32_t value) {
  simulated_device *d = ctx;
  if (offset == LDS_NATIVE_CTRL && value == LDS_CTRL_START && d->sim != NULL) {
    simulated_start(d);
  } else if (offset == LDS_NATIVE_INSN_BASE_LO || offset == LDS_NATIVE_INSN_BASE_HI) {
    d->insn_base[offset == LDS_NATIVE_INSN_BASE_HI] = value;
  } else if (offset == LDS_NATIVE_INSN_COUNT) {
    d->insn_count = value;
  } else if (offset >= LDS_NATIVE_REGION_BASE && offset < LDS_NATIVE_REGION_BASE + 8u * LDS_MAX_REGIONS) {
    d->base[(offset - LDS_NATIVE_REGION_BASE) / 8u][offset / 4u % 2u] = value;
  } else if (offset >= LDS_NATIVE_REGION_LIMIT && offset < LDS_NATIVE_REGION_LIMIT + 8u * LDS_MAX_REGIONS) {
    d->limit[(offset - LDS_NATIVE_REGION_LIMIT) / 8u][offset / 4u % 2u] = value;
  } else {
    fake_write32(ctx, offset, value);
  }
}

static void simulated_device_open(simulated_device *d, const lds_model *model, uint8_t *memory, size_t size_bytes) {
  memset(d, 0, sizeof *d);
  fake_device_open(&d->fake, lds_model_config_hash(model, 0), memory, size_bytes);
  d->fake.hal.write32 = simulated_write32;
  d->fake.pool.bus = simulated_bus;
  d->sim = simulator_of(lds_model_fingerprint(model, 0));
}

#endif /* SIMULATED_DEVICE_H */
