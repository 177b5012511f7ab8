/* Run several networks on one device, by priorities: whoever has the highest goes on where the program of another one ends.
 *
 * In:   the table of networks.h: each with a priority and perhaps a period; board.c for the board.
 * Out:  loadstone_status; the outputs of each, and how long it took from its release.
 * Next: put your application into set_inputs and take_outputs.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "board.h"
#include "lds_schedule.h"
#include "networks.h"

#ifdef MODEL_DIGESTS
#error "digests are of one network: export it alone"
#endif

/* Runs of each before the firmware ends; 0: it never ends. */
#ifndef NETWORK_RUNS
#define NETWORK_RUNS 1u
#endif

typedef struct running {
  lds_model model;
  lds_session *session;
  lds_task task;
  uint32_t ended;
} running;

static running all[NETWORKS];
static lds_schedule schedule;
static uint32_t at_work;       /* networks that have not had NETWORK_RUNS runs */
volatile int loadstone_status; /* for a debugger: LDS_OK (0), or what the first that failed ended with */

static void print_start(uint32_t k, const char *what) {
  board_print(networks[k].name);
  board_print(what);
}

/* All that is known of what went wrong. */
static void print_fault(uint32_t k, int status, const lds_fault *fault) {
  print_start(k, ": status -");
  print_number((uint32_t)-status);
  board_print(": ");
  board_print(lds_status_text(status));
  if (fault->status == status) {
    board_print("; step ");
    print_number(fault->step);
    board_print(", instruction ");
    print_number(fault->instruction);
    board_print(", layer ");
    board_print(fault->layer != NULL ? fault->layer : "");
    board_print(", error ");
    print_number(fault->error);
    board_print(", bus address ");
    print_number(fault->error_addr);
  }
  board_print("\n");
}

static void print_outputs(uint32_t k) {
  const lds_task *task = &all[k].task;
  const uint8_t *output = lds_session_output(task->session, 0);
  lds_counters counters;
  lds_tensor tensor;
  uint32_t byte;
  (void)lds_model_output(&all[k].model, 0, &tensor);
  print_start(k, ": output");
  for (byte = 0; byte < tensor.size_bytes; ++byte) {
    board_print(" ");
    print_number(output[byte]);
  }
  lds_session_counters(task->session, &counters);
  board_print("\n");
  print_start(k, ": cycles ");
  print_number((uint32_t)counters.cycles);
  board_print(", microseconds from its release ");
  print_number((uint32_t)(task->response / 1000u));
  board_print("\n");
}

/* --- of the schedule: before a run and after it ------------------------------------------------------------------------------ */
static int set_inputs(void *ctx, lds_task *task) {
  const network *n = ctx;
  uint32_t k;
  for (k = 0; k < n->inputs; ++k) {
    lds_tensor tensor;
    (void)lds_model_input(&all[n - networks].model, k, &tensor);
    memset(lds_session_input(task->session, k), 0, tensor.size_bytes); /* your samples go here */
  }
  if (n->sample != NULL) memcpy(lds_session_input(task->session, 0), n->sample, (size_t)(n->sample_end - n->sample));
  return LDS_OK;
}

static void take_outputs(void *ctx, lds_task *task, int status) {
  const network *n = ctx;
  const uint32_t k = (uint32_t)(n - networks);
  if (status == LDS_OK) {
    print_outputs(k);
  } else {
    lds_fault fault = {0};
    lds_session_fault(task->session, &fault);
    print_fault(k, status, &fault);
    if (loadstone_status == LDS_OK) loadstone_status = status;
  }
  if (NETWORK_RUNS != 0 && ++all[k].ended == NETWORK_RUNS) {
    --at_work;
    (void)lds_schedule_remove(&schedule, task);
  } else if (n->period_ns == 0) {
    (void)lds_task_release(task, task->released_at + task->response);
  }
}

/* --- at the start ------------------------------------------------------------------------------------------------------------ */
static int add(uint32_t k, lds_device *device, uint64_t now, lds_fault *fault) {
  static uint32_t scratch[(NETWORK_SCRATCH_BYTES + 3) / 4];
  const network *n = &networks[k];
  lds_session_config config;
  lds_task_config how;
  int status = lds_model_open(&all[k].model, n->bytes, (size_t)(n->bytes_end - n->bytes));
  if (status != LDS_OK) return status;
  lds_session_config_default(&config);
  config.clock_hz = MODEL_CLOCK_HZ; /* your bitstream's: a device hangs after what its program can take at it */
  if (n->operators != NULL) config.operators = n->operators;
  if (n->external != NULL) config.external = n->external;
  status = lds_session_open(&all[k].session, &all[k].model, device, &config, n->session, n->session_bytes, fault);
  if (status != LDS_OK) return status;
  lds_task_config_default(&how);
  how.priority = n->priority;
  how.period = n->period_ns;
  how.offset = now;
  how.begin = set_inputs;
  how.done = take_outputs;
  how.ctx = (void *)(uintptr_t)n;
  how.isolated = lds_model_isolated;
  how.scratch = scratch;
  how.scratch_bytes = sizeof scratch;
  status = lds_schedule_add(&schedule, &all[k].task, all[k].session, &how);
  if (status != LDS_OK || n->period_ns != 0) return status;
  return lds_task_release(&all[k].task, now);
}

int main(void) {
  static lds_hal hal;
  static lds_device device;
  uint64_t now;
  uint32_t k;
  board_open(&hal);
  lds_schedule_init(&schedule);
  loadstone_status = lds_device_open(&device, &hal, &MODEL_REGISTERS, MODEL_CONFIG_HASH);
  now = hal.now_ns(hal.ctx);
  for (k = 0; k < NETWORKS && loadstone_status == LDS_OK; ++k) {
    lds_fault fault = {0};
    const int status = add(k, &device, now, &fault);
    if (status != LDS_OK) print_fault(k, status, &fault);
    loadstone_status = status;
    ++at_work;
  }
  if (k < NETWORKS || loadstone_status != LDS_OK) board_exit(loadstone_status);
  while (at_work > 0) (void)lds_schedule_step(&schedule, hal.now_ns(hal.ctx), UINT64_MAX);
  board_exit(loadstone_status);
  return 0;
}
