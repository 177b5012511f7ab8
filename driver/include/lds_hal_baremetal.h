/* The HAL of a microcontroller or of a kernel-less SoC: the port supplies its board's functions.
 *
 * In:   addresses, and a few functions of the port.
 * Out:  an lds_hal.
 * Next: runtime/session.c. driver/README.md walks through a port.
 *
 *     static lds_pool_block blocks[12];                        // 8 regions, the stream, some to spare
 *     static lds_baremetal board = {.registers = (void *)0x40010000, .pool = {...blocks, 0, 12}, .now_ns = systick_ns};
 *     lds_hal hal;
 *     lds_baremetal_hal(&board, &hal);
 *     void NPU_IRQHandler(void) { lds_baremetal_interrupt(&board); }
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_HAL_BAREMETAL_H
#define LDS_HAL_BAREMETAL_H

#include "lds_hal.h"
#include "lds_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lds_baremetal {
  volatile void *registers; /* the CPU's address of the register page */
  lds_pool pool;            /* static memory for DMA: both addresses, size, table of blocks */
  uint64_t (*now_ns)(void);
  /* The rest may be NULL. */
  void (*cache_clean)(void *address, size_t size_bytes);      /* coherent, uncached or write-through memory: NULL */
  void (*cache_invalidate)(void *address, size_t size_bytes); /* coherent or uncached memory: NULL */
  void (*irq_enable)(uint32_t irq, int enable);               /* the device's line at the interrupt controller; NULL: the runtime polls */
  void (*sleep)(uint32_t irq);   /* until an interrupt, or less; NULL: spins. WFI has a race unless interrupts are masked first */
  int (*reset)(void);            /* resets the device from outside: LDS_HAL_OK */
  uint32_t irq;                  /* which line that is, in the port's numbers: irq_enable and sleep are given it */
  volatile uint32_t interrupted; /* set by lds_baremetal_interrupt */
} lds_baremetal;

LDS_HAL_EXPORT void lds_baremetal_hal(lds_baremetal *board, lds_hal *out);
/* To be called by the interrupt handler: masks the line, which stays high until the driver acknowledges it. */
LDS_HAL_EXPORT void lds_baremetal_interrupt(lds_baremetal *board);

#ifdef __cplusplus
}
#endif

#endif /* LDS_HAL_BAREMETAL_H */
