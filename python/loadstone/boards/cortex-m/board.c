/* The port: clock, interrupt, caches, printing. This is the file to change for your board.
 *
 * In:   names given to the compiler (BOARD_...); device.c has the addresses.
 * Out:  the fields of lds_baremetal, and a way to print.
 * Next: driver/README.md explains each field.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"

/* Clock of the processor, which SysTick counts. */
#ifndef BOARD_CLOCK_HZ
#define BOARD_CLOCK_HZ 25000000u
#endif

/* --- the clock: that of your RTOS, which has SysTick for itself: BOARD_NOW_NS is the name of a function of yours; else SysTick ---- */
#ifdef BOARD_NOW_NS
uint64_t BOARD_NOW_NS(void);

static uint64_t now_ns(void) { return BOARD_NOW_NS(); }
#else
/* SysTick counts down 2^24 ticks; read more often than it wraps (0.7 s at 25 MHz). */
#define SYST_CSR (*(volatile uint32_t *)0xE000E010u)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014u)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018u)

static uint64_t now_ns(void) {
  static uint64_t ticks;
  static uint32_t last = 0x00FFFFFFu;
  const uint32_t value = SYST_CVR;
  ticks += (last - value) & 0x00FFFFFFu;
  last = value;
  return ticks * (1000000000u / (BOARD_CLOCK_HZ / 1000u)) / 1000u;
}
#endif

/* --- the interrupts: polled unless the devices' numbers at the NVIC are given ---------------------------------------------------- */
#ifdef BOARD_IRQ
#define NVIC_ISER(n) (*(volatile uint32_t *)(0xE000E100u + 4u * ((n) / 32u)))
#define NVIC_ICER(n) (*(volatile uint32_t *)(0xE000E180u + 4u * ((n) / 32u)))
#define NVIC_ICPR(n) (*(volatile uint32_t *)(0xE000E280u + 4u * ((n) / 32u)))

static void irq_enable(uint32_t irq, int enable) {
  if (enable) { /* what is pending from before was for the last run; a line that is high pends again */
    NVIC_ICPR(irq) = 1u << (irq % 32u);
    NVIC_ISER(irq) = 1u << (irq % 32u);
  } else {
    NVIC_ICER(irq) = 1u << (irq % 32u);
    __asm__ volatile("dsb\n\tisb" ::: "memory");
  }
}

#ifndef BOARD_NOW_NS
#define ICSR (*(volatile uint32_t *)0xE000ED04u)

/* WFI ends with an interrupt that is pending while it is masked: none can come between the look and the sleep. The device's was not yet if
 * the NVIC still has it enabled. SysTick ends the sleep when it wraps, so that the clock goes on and a lost interrupt is noticed. */
static void sleep(uint32_t irq) {
  __asm__ volatile("cpsid i" ::: "memory");
  if ((NVIC_ISER(irq) >> (irq % 32u) & 1u) != 0) {
    SYST_CSR = 7u;
    __asm__ volatile("dsb\n\twfi" ::: "memory");
    SYST_CSR = 5u;
    ICSR = 1u << 25; /* SysTick's own interrupt is pending no more */
  }
  __asm__ volatile("cpsie i\n\tisb" ::: "memory");
}
#endif
#endif

void board_irq_handler(void) {
#ifdef BOARD_IRQ
  uint32_t number;
  __asm__ volatile("mrs %0, ipsr" : "=r"(number));
  (void)board_interrupt((number & 0x1FFu) - 16u); /* your other interrupts go here */
#endif
}

void board_port(lds_baremetal *port) {
#ifndef BOARD_NOW_NS
  SYST_RVR = 0x00FFFFFFu;
  SYST_CVR = 0;
  SYST_CSR = 5u; /* on, from the processor's clock, without an interrupt */
#endif
  port->now_ns = now_ns;
#ifdef BOARD_IRQ
  port->irq_enable = irq_enable;
#ifndef BOARD_NOW_NS
  port->sleep = sleep;
#endif
#endif
  /* With a data cache: port->cache_clean and port->cache_invalidate, or put section .dma where it is not cached. */
}

/* --- printing: semihosting (QEMU, a debug probe), or nothing ------------------------------------------------------------------- */
#ifdef BOARD_SEMIHOSTING
static int semihost(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void board_print(const char *text) { (void)semihost(0x04, text); }

void board_exit(int status) {
  const uint32_t block[2] = {0x20026u, (uint32_t)status}; /* ADP_Stopped_ApplicationExit */
  (void)semihost(0x20, block);
  for (;;) continue;
}
#else
void board_print(const char *text) { (void)text; }

void board_exit(int status) {
  (void)status;
  for (;;) continue;
}
#endif
