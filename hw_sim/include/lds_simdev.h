/* The simulator as a device: a register page, an interrupt line, memory, and faults that a test can inject.
 *
 * In:   a device configuration and the kind of its register page; register accesses.
 * Out:  the values of registers; programs run in a thread of the device; the level of the interrupt line.
 * Next: driver/hal_sim.c is a HAL over it within the process; simulator/simd.py serves it through a socket.
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

/* Faults for one job. Unless the fault says otherwise, `argument` is the index of an instruction. */
enum {
  LDS_FAULT_NONE = 0,
  LDS_FAULT_HANG = 1,          /* stays RUNNING at that instruction until ABORT */
  LDS_FAULT_HANG_RESET = 2,    /* the same until SOFT_RESET */
  LDS_FAULT_HANG_HW_RESET = 3, /* the same until lds_simdev_hw_reset */
  LDS_FAULT_DEAD = 4,          /* the same for ever */
  LDS_FAULT_LOST_IRQ = 5,      /* the job ends normally, but the interrupt line stays low */
  LDS_FAULT_BUS_ERROR = 6,     /* the job ends with LDS_ERROR_BUS at that instruction */
  LDS_FAULT_BIT_FLIP = 7,      /* before the job, bit `argument` of the memory is inverted, counted from bit 0 of bus address 0 */
  LDS_FAULT_DONE_LINGERS = 8,  /* HLS page: DONE of the previous job is read `argument` more times, as if the first instruction waited */
  LDS_FAULT_ABSENT = 9,        /* from this job until lds_simdev_hw_reset every register reads `argument`, as an empty bus does */
  LDS_FAULT_LIES = 10          /* until the next job or a reset, the register that contains DONE reads `argument` */
};

/* NULL when the configuration is invalid, or memory is exhausted. */
LDS_SIM_EXPORT lds_simdev *lds_simdev_create(const lds_hw_config *config, uint32_t bus_bits, int registers);
LDS_SIM_EXPORT void lds_simdev_destroy(lds_simdev *device);
/* Aborts the running job and ends the thread. The registers remain, and every later job ends with LDS_ERROR_ABORTED. */
LDS_SIM_EXPORT void lds_simdev_quit(lds_simdev *device);

/* The simulator in it, to set options and timing; not to be used while a job runs. */
LDS_SIM_EXPORT lds_sim *lds_simdev_sim(lds_simdev *device);
/* Puts the device on the bus of another one, once, and before either has a job: jobs that a host starts before it looks at a register of
 * any of them take the cycles of lds_sim_time_together. Devices of equal constants, timing counted on all or on none. With itself as the
 * other one it has a bus that others may be put on at any time, also while it works. */
LDS_SIM_EXPORT int lds_simdev_share_bus(lds_simdev *device, lds_simdev *other);
/* Flag of lds_simdev_map: the memory maps a file that other processes may truncate. An access beyond the file's end then reads zeros,
 * and this and all later jobs end with LDS_ERROR_BUS; without the flag the process gets SIGBUS. (Sealed memory needs no flag.) */
enum { LDS_SIM_GUARDED = 2 };
/* Like lds_sim_map. */
LDS_SIM_EXPORT int lds_simdev_map(lds_simdev *device, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags);
/* The same, in place of all memory mapped before. LDS_SIM_BUSY while a job runs. */
LDS_SIM_EXPORT int lds_simdev_remap(lds_simdev *device, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags);

LDS_SIM_EXPORT uint32_t lds_simdev_read32(lds_simdev *device, uint32_t offset);
LDS_SIM_EXPORT void lds_simdev_write32(lds_simdev *device, uint32_t offset, uint32_t value);

/* The interrupt line: 0 or 1. */
LDS_SIM_EXPORT int lds_simdev_irq(lds_simdev *device);
/* Waits until the line is 1, and returns its level at the end. */
LDS_SIM_EXPORT int lds_simdev_irq_wait(lds_simdev *device, uint64_t timeout_ns);
/* Waits until no job runs; for register pages without an interrupt. */
LDS_SIM_EXPORT void lds_simdev_idle_wait(lds_simdev *device, uint64_t timeout_ns);
/* Sets a function that is called with the line's new level at each change, by the thread that changes it. NULL: none. */
LDS_SIM_EXPORT void lds_simdev_on_irq(lds_simdev *device, void (*notify)(void *ctx, int level), void *ctx);

LDS_SIM_EXPORT void lds_simdev_hw_reset(lds_simdev *device);
/* Injects a fault into the job that starts after `after_jobs` others (0: the next one), in place of any fault ordered before.
 * LDS_SIM_BAD_ARGUMENT: there is no such fault, the instruction exceeds 32 bits, or the bit is not in mapped memory. */
LDS_SIM_EXPORT int lds_simdev_fault(lds_simdev *device, int fault, uint32_t after_jobs, uint64_t argument);
/* Fills in the result of the last job that ended, and returns the number of jobs that have ended. */
LDS_SIM_EXPORT uint64_t lds_simdev_result(lds_simdev *device, lds_sim_result *out);

#ifdef __cplusplus
}
#endif

#endif /* LDS_SIMDEV_H */
