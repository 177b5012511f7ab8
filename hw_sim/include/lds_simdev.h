/* The simulator as a device: a page of registers, an interrupt, memory of its own; and faults to order.
 *
 * In:   a device configuration, which register page it has; register accesses.
 * Out:  what the registers read; programs run in a thread of the device's own; the interrupt line.
 * Next: driver/hal_sim.c puts a HAL over it, in process; a server puts a socket over it.
 *
 * Any thread may access the registers.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SIMDEV_H
#define LDS_SIMDEV_H

#ifndef LDS_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

#include "lds_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lds_simdev lds_simdev;

enum { LDS_SIMDEV_NATIVE = 0, LDS_SIMDEV_CHISEL = 1, LDS_SIMDEV_HLS = 2 };

/* Faults, ordered for one job (0: the next to be started). Where nothing else is said `argument` is the instruction. */
enum {
  LDS_FAULT_NONE = 0,
  LDS_FAULT_HANG = 1,          /* stays RUNNING at that instruction until ABORT */
  LDS_FAULT_HANG_RESET = 2,    /* until SOFT_RESET */
  LDS_FAULT_HANG_HW_RESET = 3, /* until lds_simdev_hw_reset */
  LDS_FAULT_DEAD = 4,          /* for ever */
  LDS_FAULT_LOST_IRQ = 5,      /* the job ends as it should, but the line stays low */
  LDS_FAULT_BUS_ERROR = 6,     /* ERROR, LDS_ERROR_BUS at that instruction */
  LDS_FAULT_BIT_FLIP = 7,      /* before the job, bit `argument` of the memory (bit 0 of bus address 0 first) changes */
  LDS_FAULT_DONE_LINGERS = 8,  /* HLS page: DONE of the job before stays for so many more reads, as if its first instruction waited */
  LDS_FAULT_ABSENT = 9,        /* from this job on every register reads `argument`, as an empty bus; until lds_simdev_hw_reset */
  LDS_FAULT_LIES = 10          /* until the next job or a reset, the register that says DONE reads `argument` */
};

/* NULL when the configuration cannot be, or memory is out. */
LDS_SIM_EXPORT lds_simdev *lds_simdev_create(const lds_hw_config *config, uint32_t bus_bits, int registers);
LDS_SIM_EXPORT void lds_simdev_destroy(lds_simdev *device);
/* Ends what it does, and its thread; its registers stay, and a job that is started from now on ends with LDS_ERROR_ABORTED. */
LDS_SIM_EXPORT void lds_simdev_quit(lds_simdev *device);

/* The simulator inside: options, timing. Leave it alone while a job runs. */
LDS_SIM_EXPORT lds_sim *lds_simdev_sim(lds_simdev *device);
/* Flag of lds_simdev_map: the memory is of a file that others can make shorter. What is gone then is LDS_ERROR_BUS of the job that
 * comes across it and of all later ones, and reads as zeros; without the flag it is SIGBUS. (Sealed memory needs none.) */
enum { LDS_SIM_GUARDED = 2 };
/* As lds_sim_map. */
LDS_SIM_EXPORT int lds_simdev_map(lds_simdev *device, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags);
/* The same in place of all memory so far. LDS_SIM_BUSY while a job runs. */
LDS_SIM_EXPORT int lds_simdev_remap(lds_simdev *device, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags);

LDS_SIM_EXPORT uint32_t lds_simdev_read32(lds_simdev *device, uint32_t offset);
LDS_SIM_EXPORT void lds_simdev_write32(lds_simdev *device, uint32_t offset, uint32_t value);

/* The interrupt line: 0 or 1. */
LDS_SIM_EXPORT int lds_simdev_irq(lds_simdev *device);
/* Waits until the line is 1: its level at the end. */
LDS_SIM_EXPORT int lds_simdev_irq_wait(lds_simdev *device, uint64_t timeout_ns);
/* Waits while a job runs, for a page without an interrupt: at once when none does. */
LDS_SIM_EXPORT void lds_simdev_idle_wait(lds_simdev *device, uint64_t timeout_ns);
/* Called with the new level whenever it changes, from the thread that changed it; NULL: nobody is. */
LDS_SIM_EXPORT void lds_simdev_on_irq(lds_simdev *device, void (*notify)(void *ctx, int level), void *ctx);

LDS_SIM_EXPORT void lds_simdev_hw_reset(lds_simdev *device);
/* LDS_SIM_BAD_ARGUMENT: no such fault, an instruction that has no 32 bits, a bit of no mapped memory. The order before it is dropped. */
LDS_SIM_EXPORT int lds_simdev_fault(lds_simdev *device, int fault, uint32_t after_jobs, uint64_t argument);
/* Of the last job that ended; 0 when there was none. Jobs ended so far. */
LDS_SIM_EXPORT uint64_t lds_simdev_result(lds_simdev *device, lds_sim_result *out);

#ifdef __cplusplus
}
#endif

#endif /* LDS_SIMDEV_H */
