/* Reset: copy .data, clear .bss, call main. The vector table of any Cortex-M, and what it prints of a fault of the processor's.
 *
 * In:   symbols of link.ld; BOARD_LAST_IRQ (board.h), the last number of the devices' interrupts at the NVIC, where they have any.
 * Out:  main() runs.
 * Next: main.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "board.h"

/* Entries of the vector table behind the core's 16: those that the NVIC can have, as far as the devices' interrupts need them. */
#if defined(__ARM_ARCH_6M__)
#define MOST_INTERRUPTS 32
#elif defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__)
#define MOST_INTERRUPTS 240
#else
#define MOST_INTERRUPTS 480
#endif
#if defined(BOARD_IRQ) && BOARD_IRQ < 0
#error "BOARD_IRQ is below the interrupts that a processor's NVIC has"
#elif defined(BOARD_ACCELERATORS_IRQ) && BOARD_ACCELERATORS_IRQ < 0
#error "BOARD_ACCELERATORS_IRQ is below the interrupts that a processor's NVIC has"
#elif !defined(BOARD_IRQ) || BOARD_LAST_IRQ < 32
#define INTERRUPTS 32
#elif BOARD_LAST_IRQ < MOST_INTERRUPTS
#define INTERRUPTS (BOARD_LAST_IRQ + 1)
#else
#error "BOARD_IRQ, or the last one from BOARD_ACCELERATORS_IRQ on, is beyond the interrupts that this processor's NVIC can have"
#endif

#ifdef BOARD_IRQ
_Static_assert(BOARD_IRQ < INTERRUPTS, "BOARD_IRQ is a name that the preprocessor takes for 0: give its number");
#if defined(BOARD_ACCELERATORS_IRQ) && defined(MODEL_ACCELERATORS)
_Static_assert(BOARD_ACCELERATORS_IRQ + MODEL_ACCELERATORS - MODEL_FIRST_IS_ACCELERATOR <= INTERRUPTS,
               "BOARD_ACCELERATORS_IRQ is a name that the preprocessor takes for 0: give its number");
#endif
#endif

extern uint32_t stack_top[], data_start[], data_end[], data_load[], bss_start[], bss_end[];
int main(void);
void reset_handler(void);

void report_fault(const uint32_t *frame);

/* frame: what the processor put on the stack: r0 to r3, r12, lr, pc, xPSR. */
void report_fault(const uint32_t *frame) {
  uint32_t number;
  __asm__ volatile("mrs %0, ipsr" : "=r"(number));
  print_hex("loadstone: the processor's exception", number);
  print_hex(" at", frame[6]);
  print_hex(", called from", frame[5]);
#if !defined(__ARM_ARCH_6M__)
  print_hex(", CFSR", *(volatile uint32_t *)0xE000ED28u);
  print_hex(", BFAR", *(volatile uint32_t *)0xE000ED38u);
#endif
  board_print("\n");
  board_exit(1);
}

__attribute__((naked)) static void fault_handler(void) {
  __asm__ volatile(
      "mrs r0, msp\n\t"
      "ldr r1, =report_fault\n\t"
      "bx r1");
}

void reset_handler(void) {
#if defined(__ARM_FP)
  *(volatile uint32_t *)0xE000ED88u |= 0xF00000u; /* CPACR: the FPU is there and may be used */
  __asm__ volatile("dsb\n\tisb" ::: "memory");
#endif
  memcpy(data_start, data_load, (size_t)((char *)data_end - (char *)data_start));
  memset(bss_start, 0, (size_t)((char *)bss_end - (char *)bss_start));
  (void)main();
  for (;;) continue;
}

/* 16 of the core, then every interrupt to the one handler. */
__attribute__((section(".vectors"), used)) void (*const vectors[16 + INTERRUPTS])(void) = {
    (void (*)(void))(uintptr_t)stack_top,
    reset_handler,
    [2 ... 15] = fault_handler,
    [16 ... 15 + INTERRUPTS] = board_irq_handler,
};
