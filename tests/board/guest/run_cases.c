/* Runs a model again and again, whatever the device does meanwhile, and shows what came out.
 *
 * In:   a board.
 * Out:  lines of text. The faults are injected by the simulator: this program, like one in the field, knows of none.
 * Next: tests/board/console.py.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "run_cases.h"

#include "lds_isa.h"

enum { HANG_NS = 2000 * 1000 * 1000 };

static void print_number(const board *b, const char *name, int64_t value) {
  char text[24], *p = text + sizeof text;
  uint64_t rest = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
  *--p = 0;
  do *--p = (char)('0' + rest % 10u);
  while ((rest /= 10u) != 0);
  if (value < 0) *--p = '-';
  b->print(name);
  b->print(p);
}

static void print_bytes(const board *b, const uint8_t *bytes, size_t count) {
  static const char digit[] = "0123456789abcdef";
  for (; count > 0; --count, ++bytes) {
    const char text[3] = {digit[*bytes >> 4], digit[*bytes & 15], 0};
    b->print(text);
  }
}

static void run_once(const board *b, lds_session *session, uint32_t run, const lds_tensor *x, const lds_tensor *y) {
  const size_t inputs = b->inputs_bytes / x->size_bytes;
  lds_counters counters = {0};
  lds_fault fault = {0};
  int status;
  print_number(b, "run ", run);
  b->print(" begin\n");
  status = lds_session_set_input(session, 0, b->inputs + run % inputs * x->size_bytes, x->size_bytes);
  if (status == LDS_OK) status = lds_session_run(session);
  if (status == LDS_OK) {
    lds_session_counters(session, &counters);
  } else {
    lds_session_fault(session, &fault);
  }
  print_number(b, "run ", run);
  print_number(b, " status ", status);
  print_number(b, " error ", fault.error);
  print_number(b, " device ", fault.device);
  print_number(b, " cycles ", (int64_t)counters.cycles);
  b->print(" output ");
  if (status == LDS_OK) print_bytes(b, lds_session_output(session, 0), y->size_bytes);
  b->print("\n");
}

/* A program at an address where no memory is: the device must say so, with an interrupt. */
static void bad_address(const board *b) {
  const lds_hal *hal = b->hal;
  lds_job job = {0};
  lds_device_state state = {0};
  int irq;
  job.insn_bus = 0x30000000u;
  job.insn_count = 2;
  b->registers->start(hal, &job);
  do { /* a busy machine answers late; a device that never does ends with the emulator's own deadline */
    irq = hal->irq_wait(hal->ctx, HANG_NS);
    b->registers->state(hal, &state);
  } while (state.state == LDS_STATE_RUNNING); /* an interrupt may be one of the run before, that came late */
  b->registers->irq_clear(hal);
  if (hal->irq_ack != NULL) hal->irq_ack(hal->ctx);
  print_number(b, "bad-address irq ", irq);
  print_number(b, " state ", state.state);
  print_number(b, " error ", state.error);
  print_number(b, " address ", state.error_addr);
  b->print("\n");
  b->registers->stop(hal, LDS_STOP_SOFT_RESET);
}

int run_cases(const board *b) {
  lds_model model;
  lds_device device;
  lds_session_config config;
  lds_session *session;
  lds_tensor x, y;
  uint32_t run;
  int status = lds_model_open(&model, b->model, b->model_bytes);
  if (status == LDS_OK) status = lds_model_input(&model, 0, &x);
  if (status == LDS_OK) status = lds_model_output(&model, 0, &y);
  if (status == LDS_OK) status = lds_device_open(&device, b->hal, b->registers, 0);
  lds_session_config_default(&config);
  lds_session_config_all(&config);
  config.hang_ns = HANG_NS;
  if (status == LDS_OK && b->accelerators != NULL) status = b->accelerators(b->hal, &config);
  if (status == LDS_OK) status = lds_session_open(&session, &model, &device, &config, b->memory, b->memory_bytes, NULL);
  if (status != LDS_OK) {
    print_number(b, "failed status ", status);
    b->print("\n");
    return status;
  }
  for (run = 0; run < b->runs; ++run) run_once(b, session, run, &x, &y);
  lds_session_close(session);
  if (b->registers == &lds_registers_native) bad_address(b);
  if (b->interrupts != NULL) print_number(b, "interrupts ", b->interrupts());
  b->print("\ndone\n");
  return 0;
}
