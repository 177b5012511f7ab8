/* The cases in a firmware: the exported project's own start, port and linker script; the run is another.
 *
 * In:   model.lds and inputs, linked in as `model_begin` .. and `inputs_begin` ..; model.h; RUNS; the linker's
 *       --wrap=lds_baremetal_interrupt.
 * Out:  run_cases(), or what CASES names, over the baremetal HAL; then the emulator is left.
 * Next: run_cases.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"
#include "model.h"
#include "run_cases.h"
#include "share_cases.h"

#ifndef RUNS
#define RUNS 3u
#endif
#ifndef CASES
#define CASES run_cases
#endif

extern const uint8_t model_begin[], model_end[], inputs_begin[], inputs_end[];

int main(void);
void __real_lds_baremetal_interrupt(lds_baremetal *port);
void __wrap_lds_baremetal_interrupt(lds_baremetal *port);

static uint32_t interrupts_so_far;

void __wrap_lds_baremetal_interrupt(lds_baremetal *port) {
  ++interrupts_so_far;
  __real_lds_baremetal_interrupt(port);
}

static uint32_t interrupts(void) { return interrupts_so_far; }

int main(void) {
  static uint8_t memory[1 << 20] __attribute__((aligned(16)));
  static lds_hal hal;
  board b = {0};
  board_open(&hal);
  b.hal = &hal;
  b.registers = &lds_registers_native;
  b.model = model_begin;
  b.model_bytes = (size_t)(model_end - model_begin);
  b.inputs = inputs_begin;
  b.inputs_bytes = (size_t)(inputs_end - inputs_begin);
  b.runs = RUNS;
  b.memory = memory;
  b.memory_bytes = sizeof memory;
  b.print = board_print;
  b.interrupts = interrupts;
#ifdef MODEL_ACCELERATORS
  b.accelerators = model_accelerators;
#endif
  board_exit(CASES(&b) == LDS_OK ? 0 : 1);
  return 0;
}
