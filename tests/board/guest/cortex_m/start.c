/* A Cortex-M firmware for ARM's AN385 image (QEMU's mps2-an385): vectors, start-up, console, clock, and the run.
 *
 * In:   model.lds and inputs, linked in as `model_begin` .. and `inputs_begin` ..; RUNS.
 * Out:  run_cases() over the baremetal HAL; then the emulator is left through semihosting.
 * Next: run_cases.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "lds_hal_baremetal.h"
#include "run_cases.h"

#ifndef RUNS
#define RUNS 3u
#endif

enum { REGISTERS = 0x40100000, INTERRUPT = 20, CLOCK_HZ = 25000000, POOL = 0x21000000, POOL_BYTES = 16 << 20 };

#define REGISTER(address) (*(volatile uint32_t *)(uintptr_t)(address))
#define UART_DATA REGISTER(0x40004000u)
#define UART_STATE REGISTER(0x40004004u) /* bit 0: full */
#define UART_CONTROL REGISTER(0x40004008u)
#define UART_DIVISOR REGISTER(0x40004010u)
#define TIMER_CONTROL REGISTER(0x40000000u)
#define TIMER_VALUE REGISTER(0x40000004u)
#define TIMER_RELOAD REGISTER(0x40000008u)
#define NVIC_ENABLE REGISTER(0xE000E100u)
#define NVIC_DISABLE REGISTER(0xE000E180u)
#define NVIC_CLEAR_PENDING REGISTER(0xE000E280u)

extern uint8_t data_begin[], data_end[], data_source[], bss_begin[], bss_end[], stack_top[];
extern const uint8_t model_begin[], model_end[], inputs_begin[], inputs_end[];

void reset_handler(void);
int main(void);

static void print(const char *text) {
  for (; *text != 0; ++text) {
    while ((UART_STATE & 1u) != 0) {
    }
    UART_DATA = (uint8_t)*text;
  }
}

/* Semihosting, SYS_EXIT with ADP_Stopped_ApplicationExit. */
static _Noreturn void off(void) {
  register uint32_t operation __asm__("r0") = 0x18;
  register uint32_t reason __asm__("r1") = 0x20026;
  __asm__ volatile("bkpt 0xAB" : : "r"(operation), "r"(reason) : "memory");
  for (;;) {
  }
}

static void fault_handler(void) {
  print("failed: a processor fault\n");
  off();
}

/* Nanoseconds since start: a counter of 32 bits at 25 MHz, looked at more often than it turns over (every 171 s). */
static uint64_t now_ns(void) {
  static uint32_t last;
  static uint64_t ticks;
  const uint32_t now = ~TIMER_VALUE; /* it counts down */
  ticks += now - last;
  last = now;
  return ticks * (1000000000u / CLOCK_HZ);
}

/* The line is a level, still high when the handler ends: NVIC has noted a second interrupt by then, which is none. */
static void irq_enable(int enable) {
  if (enable) {
    NVIC_CLEAR_PENDING = 1u << INTERRUPT;
    NVIC_ENABLE = 1u << INTERRUPT;
  } else {
    NVIC_DISABLE = 1u << INTERRUPT;
  }
}

static lds_pool_block blocks[16];
static lds_baremetal npu = {
    .registers = (void *)REGISTERS,
    .pool = {.cpu = (uint8_t *)POOL, .bus = POOL, .size_bytes = POOL_BYTES, .blocks = blocks, .capacity = sizeof blocks / sizeof blocks[0]},
    .now_ns = now_ns,
    .irq_enable = irq_enable,
};

static uint32_t interrupts_so_far;

static void npu_handler(void) {
  ++interrupts_so_far;
  lds_baremetal_interrupt(&npu);
}

static uint32_t interrupts(void) { return interrupts_so_far; }

/* Vector table: stack, reset, the processor's exceptions, then interrupts. */
typedef void (*handler)(void);
__attribute__((section(".vectors"), used)) static const handler vectors[16 + INTERRUPT + 1] = {
    (handler)(uintptr_t)stack_top,  reset_handler, fault_handler, fault_handler, fault_handler, fault_handler, fault_handler,
    [16 + INTERRUPT] = npu_handler,
};

int main(void) {
  static uint8_t memory[1 << 20] __attribute__((aligned(16)));
  lds_hal hal;
  board b = {0};
  UART_DIVISOR = 16;
  UART_CONTROL = 1; /* transmit */
  TIMER_RELOAD = UINT32_MAX;
  TIMER_VALUE = UINT32_MAX;
  TIMER_CONTROL = 1;
  lds_baremetal_hal(&npu, &hal);
  b.hal = &hal;
  b.registers = &lds_registers_native;
  b.model = model_begin;
  b.model_bytes = (size_t)(model_end - model_begin);
  b.inputs = inputs_begin;
  b.inputs_bytes = (size_t)(inputs_end - inputs_begin);
  b.runs = RUNS;
  b.memory = memory;
  b.memory_bytes = sizeof memory;
  b.print = print;
  b.interrupts = interrupts;
  return run_cases(&b);
}

void reset_handler(void) {
  memcpy(data_begin, data_source, (size_t)(data_end - data_begin));
  memset(bss_begin, 0, (size_t)(bss_end - bss_begin));
  (void)main();
  off();
}
