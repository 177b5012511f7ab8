/* The hardware under Verilator, as a device: registers, memory, an interrupt; and a clock that the caller drives.
 *
 * In:   a device that was compiled in (build/rtl/NAME); memory at bus addresses and its latency; register accesses.
 * Out:  the values of registers; memory changed by programs; the interrupt line; beats and bursts on the bus.
 * Next: python/loadstone/vta/simulator/rtl.py.
 *
 * Not for two threads at once. The clock advances in lds_rtl_step, and by a few cycles in each register access.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_RTL_H
#define LDS_RTL_H

#ifndef LDS_CDEF
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#endif

typedef struct lds_rtl lds_rtl;

/* Counted on the bus since the device was created. */
typedef struct lds_rtl_traffic {
  uint64_t read_beats, write_beats, read_bursts, write_bursts;
} lds_rtl_traffic;

/* NULL when memory is exhausted. Scratchpads hold zeros. */
lds_rtl *lds_rtl_create(void);
void lds_rtl_destroy(lds_rtl *rtl);

/* Places host memory at a bus address; other addresses respond with an error. 0, or -1 when it overlaps or memory is exhausted. */
int lds_rtl_map(lds_rtl *rtl, uint64_t bus_address, void *memory, uint64_t size_bytes, int read_only);
void lds_rtl_unmap_all(lds_rtl *rtl);
/* The constants read_latency_cycles, read_burst_extra_cycles and read_bursts_outstanding of the timing model. */
void lds_rtl_memory_latency(lds_rtl *rtl, uint32_t latency_cycles, uint32_t burst_extra_cycles, uint32_t bursts_outstanding);

/* Memory accepts requests and words, and responds, in about every other cycle, chosen by the seed. 0: in every cycle. */
void lds_rtl_memory_stalls(lds_rtl *rtl, uint64_t seed);

uint32_t lds_rtl_read32(lds_rtl *rtl, uint32_t offset);
void lds_rtl_write32(lds_rtl *rtl, uint32_t offset, uint32_t value);
/* The reset pin. */
void lds_rtl_hw_reset(lds_rtl *rtl);

/* Runs the clock until the interrupt line changes, but at most for this number of cycles. Returns the line. */
int lds_rtl_step(lds_rtl *rtl, uint64_t cycles);
int lds_rtl_irq(const lds_rtl *rtl);
uint64_t lds_rtl_now(const lds_rtl *rtl);
void lds_rtl_bus_traffic(const lds_rtl *rtl, lds_rtl_traffic *out);

/* The content of a tile of WGT, INP, OUT or ACC (LDS_MEMORY_*). */
void lds_rtl_peek(lds_rtl *rtl, uint32_t memory, uint32_t tile, void *out, uint32_t size_bytes);

#if !defined(LDS_CDEF) && defined(__cplusplus)
}
#endif
#endif /* LDS_RTL_H */
