/* Stop or reset a device that hangs, or that still executes the program of a process that has ended; or declare it dead.
 *
 * In:   an open device in any state.
 * Out:  an idle device, or LDS_ERR_DEAD.
 * Next: session.c calls it for a device that is opened, run.c for one that hangs. It does not depend on sessions.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "recover.h"

#include <string.h>

#include "lds_isa.h"

enum { SETTLE_NS = 10 * 1000 * 1000, REST_NS = 2000 * 1000 * 1000, LONGEST_REST_NS = 10 * 1000 * 1000 };

uint32_t lds_device_look(lds_device *device, lds_device_state *state) {
  memset(state, 0, sizeof *state);
  state->seen = device->seen;
  device->registers->state(device->hal, state);
  device->seen = state->seen;
  return state->state;
}

void lds_device_pause(const lds_hal *hal, uint64_t passed_ns, uint64_t left_ns) {
  uint64_t ns = passed_ns / LDS_SLICES;
  if (ns > LONGEST_REST_NS) ns = LONGEST_REST_NS;
  if (ns > left_ns) ns = left_ns;
  if (hal->rest != NULL) hal->rest(hal->ctx, ns);
}

/* Waits for the device to stop running. */
static int settles(lds_device *device, uint64_t within_ns) {
  const lds_hal *hal = device->hal;
  const uint64_t begin = hal->now_ns(hal->ctx);
  lds_device_state state;
  while (lds_device_look(device, &state) == LDS_STATE_RUNNING) {
    const uint64_t passed = hal->now_ns(hal->ctx) - begin;
    if (passed >= within_ns) return 0;
    lds_device_pause(hal, passed, within_ns - passed);
  }
  return 1;
}

static int stopped(lds_device *device, int how) {
  return device->registers->stop(device->hal, how) == LDS_HAL_OK && settles(device, SETTLE_NS);
}

int lds_device_recover(lds_device *device) {
  const lds_hal *hal = device->hal;
  (void)stopped(device, LDS_STOP_ABORT); /* gently, so that the bus is left clean */
  device->dead = 0;
  if (!stopped(device, LDS_STOP_SOFT_RESET)) {
    const int shows_state = (device->registers->flags & (LDS_BLOCK_PROGRESS | LDS_BLOCK_IDLE)) != 0;
    const int reset = hal->hw_reset != NULL && hal->hw_reset(hal->ctx) == LDS_HAL_OK;
    device->dead = shows_state ? !settles(device, SETTLE_NS) : !reset;
  }
  device->registers->irq_clear(hal);
  if (hal->irq_ack != NULL) (void)hal->irq_ack(hal->ctx);
  return device->dead != 0 ? LDS_ERR_DEAD : LDS_ERR_HUNG;
}

/* A process that was killed during a run leaves a device that is still running: it reads instructions from, and writes to, memory that may
 * belong to another process by now. */
int lds_device_rest(lds_device *device) {
  lds_device_state state;
  if ((device->registers->flags & LDS_BLOCK_IDLE) == 0) return LDS_OK;
  device->seen = 1; /* whoever started the program */
  if (lds_device_look(device, &state) == LDS_ABSENT) return LDS_ERR_ABSENT;
  if (state.state != LDS_STATE_RUNNING || stopped(device, LDS_STOP_ABORT)) return LDS_OK;
  if (settles(device, REST_NS)) return LDS_OK; /* a page without a way to stop ends by itself */
  return lds_device_recover(device) == LDS_ERR_DEAD ? LDS_ERR_DEAD : LDS_OK;
}
