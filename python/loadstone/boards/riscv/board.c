/* The port: clock, interrupt, caches, printing. This is the file to change for your board.
 *
 * In:   names given to the compiler (BOARD_...); device.c has the addresses of the accelerator. As it stands: QEMU's virt.
 * Out:  the fields of lds_baremetal, and a way to print.
 * Next: driver/README.md explains each field.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

#define WORD(address) (*(volatile uint32_t *)(uintptr_t)(address))

/* --- the clock: mtime of the CLINT, and what it counts ----------------------------------------------------------------------------- */
#ifndef BOARD_MTIME
#define BOARD_MTIME 0x0200BFF8u
#endif
#ifndef BOARD_CLOCK_HZ
#define BOARD_CLOCK_HZ 10000000u
#endif

/* Two words, so that processors of 32 bits read it too: the upper one is the same before and behind the lower one. */
static uint64_t ticks(void) {
  uint32_t high, low;
  do {
    high = WORD(BOARD_MTIME + 4u);
    low = WORD(BOARD_MTIME);
  } while (high != WORD(BOARD_MTIME + 4u));
  return (uint64_t)high << 32 | low;
}

static uint64_t now_ns(void) {
  const uint64_t now = ticks();
  return now / BOARD_CLOCK_HZ * 1000000000u + now % BOARD_CLOCK_HZ * 1000000000u / BOARD_CLOCK_HZ;
}

/* --- the interrupts: polled unless the devices' numbers at the PLIC are given ----------------------------------------------------- */
#ifdef BOARD_IRQ
#if BOARD_IRQ < 1 || BOARD_IRQ > 1023
#error "BOARD_IRQ is not one of the interrupts 1 to 1023 that a PLIC can have"
#endif
#if defined(BOARD_ACCELERATORS_IRQ) && (BOARD_ACCELERATORS_IRQ < 1 || BOARD_LAST_IRQ > 1023)
#error "BOARD_ACCELERATORS_IRQ and those behind it are not of the interrupts 1 to 1023 that a PLIC can have"
#endif
#ifndef BOARD_PLIC
#define BOARD_PLIC 0x0C000000u
#endif
/* Of this hart in machine mode. */
#ifndef BOARD_PLIC_CONTEXT
#define BOARD_PLIC_CONTEXT 0u
#endif
/* The hart's word of the CLINT at which its timer interrupts. */
#ifndef BOARD_MTIMECMP
#define BOARD_MTIMECMP 0x02004000u
#endif
#define PLIC_PRIORITY(irq) WORD(BOARD_PLIC + 4u * (irq))
#define PLIC_ENABLE(irq) WORD(BOARD_PLIC + 0x2000u + 0x80u * BOARD_PLIC_CONTEXT + 4u * ((irq) / 32u))
#define PLIC_THRESHOLD WORD(BOARD_PLIC + 0x200000u + 0x1000u * BOARD_PLIC_CONTEXT)
#define PLIC_CLAIM WORD(BOARD_PLIC + 0x200004u + 0x1000u * BOARD_PLIC_CONTEXT)
#define MIE_MACHINE_EXTERNAL 0x800u
#define MIE_MACHINE_TIMER 0x80u
#define MSTATUS_MIE 0x8u

static volatile uint8_t claimed[BOARD_LAST_IRQ + 1]; /* by number, a byte each: one handler's does not disturb another's */

/* An interrupt that was claimed does not come again before it is completed: that is what keeps a line silent that is still high. It is
 * completed when the driver has acknowledged, and stays enabled, as a PLIC ignores the completion of one that is not. */
static void irq_enable(uint32_t irq, int enable) {
  if (!enable) {
    claimed[irq] = 1;
    return;
  }
  PLIC_PRIORITY(irq) = 1;
  PLIC_ENABLE(irq) |= 1u << (irq % 32u);
  if (claimed[irq]) {
    claimed[irq] = 0;
    PLIC_CLAIM = irq;
  }
}

/* WFI ends with an interrupt that is pending while all are masked: none can come between the look and the sleep. The timer ends the sleep
 * after a 128th of a second, so that a lost interrupt is noticed. */
static void sleep(uint32_t irq) {
  __asm__ volatile("csrc mstatus, %0" : : "r"(MSTATUS_MIE) : "memory");
  if (!claimed[irq]) {
    const uint64_t until = ticks() + BOARD_CLOCK_HZ / 128u;
    WORD(BOARD_MTIMECMP + 4u) = UINT32_MAX; /* not early between the two words */
    WORD(BOARD_MTIMECMP) = (uint32_t)until;
    WORD(BOARD_MTIMECMP + 4u) = (uint32_t)(until >> 32);
    __asm__ volatile("csrs mie, %0\n\tfence\n\twfi\n\tcsrc mie, %0" : : "r"(MIE_MACHINE_TIMER) : "memory");
  }
  __asm__ volatile("csrs mstatus, %0" : : "r"(MSTATUS_MIE) : "memory");
}
#endif

void board_irq_handler(void) {
#ifdef BOARD_IRQ
  const uint32_t source = PLIC_CLAIM;
  if (source != 0 && !board_interrupt(source)) PLIC_CLAIM = source; /* your other interrupts go here */
#endif
}

void board_port(lds_baremetal *port) {
  port->now_ns = now_ns;
#ifdef BOARD_IRQ
  PLIC_THRESHOLD = 0;
  port->irq_enable = irq_enable;
  port->sleep = sleep;
  __asm__ volatile("csrs mie, %0\n\tcsrs mstatus, %1" : : "r"(MIE_MACHINE_EXTERNAL), "r"(MSTATUS_MIE) : "memory");
#endif
  /* With a data cache: port->cache_clean and port->cache_invalidate, or put section .dma where it is not cached. */
}

/* --- printing: a 16550, whose speed whoever boots the board has set; or nothing ------------------------------------------------- */
#ifdef BOARD_UART
#ifndef BOARD_UART_STRIDE
#define BOARD_UART_STRIDE 1u /* bytes from one of its registers to the next */
#endif
#define UART(number) (*(volatile uint8_t *)(uintptr_t)(BOARD_UART + BOARD_UART_STRIDE * (number)))
enum { UART_DATA = 0, UART_LINE_STATUS = 5, UART_ROOM = 0x20 };

void board_print(const char *text) {
  for (; *text != '\0'; ++text) {
    while ((UART(UART_LINE_STATUS) & UART_ROOM) == 0) continue;
    UART(UART_DATA) = (uint8_t)*text;
  }
}
#else
void board_print(const char *text) { (void)text; }
#endif

/* BOARD_EXIT: the test device of QEMU's machines, which ends the emulator. */
void board_exit(int status) {
#ifdef BOARD_EXIT
  WORD(BOARD_EXIT) = status == 0 ? 0x5555u : (uint32_t)status << 16 | 0x3333u;
#endif
  (void)status;
  for (;;) __asm__ volatile("wfi");
}
