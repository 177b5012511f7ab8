/* Reset: copy .data, clear .bss, call main. The vector table of any Cortex-M.
 *
 * In:   symbols of link.ld.
 * Out:  main() runs.
 * Next: main.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

extern uint32_t stack_top[], data_start[], data_end[], data_load[], bss_start[], bss_end[];
int main(void);
void board_irq_handler(void);
void reset_handler(void);

static void fault_handler(void) {
  for (;;) continue;
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
__attribute__((section(".vectors"), used)) void (*const vectors[16 + 64])(void) = {
    (void (*)(void))(uintptr_t)stack_top,
    reset_handler,
    [2 ... 15] = fault_handler,
    [16 ... 79] = board_irq_handler,
};
