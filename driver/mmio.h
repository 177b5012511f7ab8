/* Access 32-bit registers at an address, ordered with all accesses before and after. Private to driver/.
 *
 * In:   the CPU's address of a register page.
 * Out:  read and write, each with a barrier: DMA memory written before a register write is visible to the device after it.
 * Next: hal_baremetal.c, hal_linux_*.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_MMIO_H
#define LDS_MMIO_H

#include <stdint.h>

/* A barrier of the full system, because the device is outside the CPUs' shareability domain. */
static inline void lds_barrier(void) {
#if defined(__arm__) || defined(__aarch64__)
  __asm__ volatile("dsb sy" ::: "memory");
#elif defined(__riscv)
  __asm__ volatile("fence iorw, iorw" ::: "memory");
#else
  __sync_synchronize();
#endif
}

static inline uint32_t lds_mmio_read(const volatile void *base, uint32_t offset) {
  const uint32_t value = *((const volatile uint32_t *)base + offset / 4u);
  lds_barrier();
  return value;
}

static inline void lds_mmio_write(volatile void *base, uint32_t offset, uint32_t value) {
  lds_barrier();
  *((volatile uint32_t *)base + offset / 4u) = value;
}

#endif /* LDS_MMIO_H */
