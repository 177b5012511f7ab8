/* Reset: stack, copy .data, clear .bss, call main. The traps of machine mode, and what it prints of a fault of the processor's.
 *
 * In:   symbols of link.ld; one hart, BOARD_HART: the others sleep.
 * Out:  main() runs.
 * Next: main.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "board.h"

#ifndef BOARD_HART
#define BOARD_HART 0
#endif
#define TEXT(value) TEXT_OF(value)
#define TEXT_OF(value) #value

extern char data_start[], data_end[], data_load[], bss_start[], bss_end[];
int main(void);
void reset_handler(void);
void start(void);
void report_fault(void);
void service_trap(void);

#define READ_CSR(name, value) __asm__ volatile("csrr %0, " name : "=r"(value))
#define MACHINE_EXTERNAL 11u

/* mscratch: the return address of what was interrupted. */
void report_fault(void) {
  uintptr_t cause, at, from, value;
  READ_CSR("mcause", cause);
  READ_CSR("mepc", at);
  READ_CSR("mscratch", from);
  READ_CSR("mtval", value);
  print_hex("loadstone: the processor's exception", cause);
  print_hex(" at", at);
  print_hex(", called from", from);
  print_hex(", mtval", value);
  board_print("\n");
  board_exit(1);
}

/* The compiler saves every register that this needs. */
__attribute__((interrupt("machine"))) void service_trap(void) {
  const uintptr_t interrupt = (uintptr_t)1 << (8 * sizeof interrupt - 1);
  uintptr_t cause;
  READ_CSR("mcause", cause);
  if (cause == (interrupt | MACHINE_EXTERNAL))
    board_irq_handler();
  else
    report_fault();
}

__attribute__((naked, aligned(4))) static void trap_handler(void) {
  __asm__ volatile(
      "csrw mscratch, ra\n\t"
      "j service_trap");
}

/* Where link.ld begins: no stack yet, and every hart comes here. */
__attribute__((naked, section(".vectors"), used)) void reset_handler(void) {
  __asm__ volatile(
      ".option push\n\t"
      ".option norelax\n\t"
      "la gp, __global_pointer$\n\t"
      ".option pop\n\t"
      "la sp, stack_top\n\t"
      "csrr t0, mhartid\n\t"
      "li t1, " TEXT(BOARD_HART) "\n\t"
      "beq t0, t1, 2f\n"
      "1:\n\t"
      "wfi\n\t"
      "j 1b\n"
      "2:\n\t"
      "j start");
}

void start(void) {
  __asm__ volatile("csrw mtvec, %0" : : "r"(trap_handler));
#if defined(__riscv_flen)
  __asm__ volatile("csrs mstatus, %0" : : "r"(0x2000)); /* FS: the FPU is there and may be used */
#endif
  memcpy(data_start, data_load, (size_t)(data_end - data_start));
  memset(bss_start, 0, (size_t)(bss_end - bss_start));
  (void)main();
  for (;;) continue;
}
