/* The interface that a board provides to the runtime, and the operations on a device's register page.
 *
 * In:   a board: register access, DMA memory, an interrupt, a clock.
 * Out:  lds_hal, a struct of callbacks; lds_register_block, one per kind of register page.
 * Next: runtime/ depends on nothing else of a board. driver/README.md describes a port to a new one.
 *
 * One process may use several devices: there is no global state here.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_HAL_H
#define LDS_HAL_H

#ifndef LDS_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

#if defined(LDS_CDEF)
#define LDS_HAL_EXPORT
#elif defined(__GNUC__)
#define LDS_HAL_EXPORT __attribute__((visibility("default")))
#else
#define LDS_HAL_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { LDS_HAL_ABI_VERSION = 1 };

/* Results of callbacks that return int. */
enum {
  LDS_HAL_OK = 0,
  LDS_HAL_TIMEOUT = -1,    /* the time passed without an interrupt */
  LDS_HAL_NO_MEMORY = -2,  /* no DMA memory of that size and alignment is left */
  LDS_HAL_FAILED = -3,     /* the operating system or the device refused */
  LDS_HAL_UNSUPPORTED = -4 /* the board has no such function */
};

/* lds_dma_buffer.flags: which other parties access the memory. */
enum { LDS_DMA_DEVICE_READS = 1, LDS_DMA_DEVICE_WRITES = 2 };

/* The largest align_bytes that the runtime passes to dma_alloc (runtime/FORMAT.md, R11). */
enum { LDS_DMA_MAX_ALIGN = 65536 };

/* The direction of dma_sync. */
enum {
  LDS_DMA_TO_DEVICE = 1,  /* the CPU wrote, the device will read: clean the caches */
  LDS_DMA_FROM_DEVICE = 2 /* the device wrote, the CPU will read: invalidate the caches */
};

/* Memory that CPU and device share. `bus` is the device's address for it, which need not be the CPU's physical one. */
typedef struct lds_dma_buffer {
  void *cpu;
  uint64_t bus;
  size_t size_bytes;
  uint32_t flags;
} lds_dma_buffer;

struct lds_counters;

/* Callbacks may be NULL where noted. None is called from an interrupt handler, and a device's only from one thread at a time:
 * those of a run, of lds_session_open and of lds_session_close, which must not overlap (Threads in runtime/include/loadstone.h). */
typedef struct lds_hal {
  uint32_t abi_version; /* LDS_HAL_ABI_VERSION */
  void *ctx;            /* passed to every callback */

  /* 32-bit access to the register page, in program order with each other and with dma_sync. */
  uint32_t (*read32)(void *ctx, uint32_t offset);
  void (*write32)(void *ctx, uint32_t offset, uint32_t value);

  /* DMA memory of at least size_bytes; both addresses at multiples of align_bytes, a power of two. The content is undefined. */
  int (*dma_alloc)(void *ctx, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out);
  void (*dma_free)(void *ctx, lds_dma_buffer *buffer);
  /* Makes one side's writes to [offset, offset + size_bytes) visible to the other. NULL: memory is coherent. */
  int (*dma_sync)(void *ctx, const lds_dma_buffer *buffer, size_t offset, size_t size_bytes, int direction);

  /* Sleeps until the device's interrupt, at most timeout_ns: LDS_HAL_OK or LDS_HAL_TIMEOUT. NULL: the runtime polls. */
  int (*irq_wait)(void *ctx, uint64_t timeout_ns);
  /* After the device's own interrupt status was cleared: lets the next interrupt through. NULL: nothing to do. */
  int (*irq_ack)(void *ctx);

  uint64_t (*now_ns)(void *ctx); /* a monotonic clock */
  int (*hw_reset)(void *ctx);    /* resets the device from outside; NULL: the board cannot */
  /* Yields the processor for at most `ns`, between two polls of a device. NULL: the runtime spins. */
  void (*rest)(void *ctx, uint64_t ns);
  /* Of the last program, where the register page counts nothing: a simulator knows. NULL: nobody does. Its own context stays right in a
   * copy of this struct that stands before the callbacks above with another one. */
  void (*counters)(void *counters_ctx, struct lds_counters *out);
  void *counters_ctx;
} lds_hal;

/* One program for the device. Regions that are not used have size 0. */
typedef struct lds_job {
  uint64_t insn_bus;
  uint32_t insn_count;
  uint32_t writable; /* bit r: stores to region r are allowed */
  uint64_t region_bus[8];
  uint64_t region_size_bytes[8];
  const uint8_t *insn_cpu; /* the same instructions as the CPU sees them: for devices that are fed word by word */
  uint32_t insn_bytes;     /* their size */
} lds_job;

/* The status that a device reports. state: LDS_STATE_*, error: LDS_ERROR_* (lds_isa.h). */
typedef struct lds_device_state {
  uint32_t state;
  uint32_t error;
  uint32_t error_pc;   /* instruction */
  uint32_t error_addr; /* low 32 bits of a bus address */
  uint32_t insn_pc;    /* instructions completed */
  uint32_t seen;       /* the register block's own record of one program: 0 before its first poll, then as the block left it */
} lds_device_state;

/* The value that an empty bus reads as, and the state of a device whose registers all read so. */
#define LDS_ABSENT UINT32_MAX

/* Counters of the last program; those that a device does not have are 0. All are uint64_t: runtime/run.c adds them in a loop. */
typedef struct lds_counters {
  uint64_t cycles;
  uint64_t load_busy_cycles, compute_busy_cycles, store_busy_cycles;
  uint64_t read_bytes, write_bytes;
  uint64_t device_ns; /* by the HAL's clock: from START, or from the begin of the wait, until the end was observed */
} lds_counters;

/* lds_register_block.flags */
enum {
  LDS_BLOCK_REGIONS = 1,  /* has REGION_BASE and REGION_LIMIT */
  LDS_BLOCK_PROGRESS = 2, /* insn_pc moves while a program runs */
  LDS_BLOCK_BUS_32 = 4,   /* addresses have 32 bits */
  LDS_BLOCK_NO_IRQ = 8,   /* must be polled */
  LDS_BLOCK_IDLE = 16     /* state is valid before a start, too, with `seen` 1: it tells whether the device runs any program */
};

/* Ways to stop a device, the gentlest first. */
enum { LDS_STOP_ABORT = 0, LDS_STOP_SOFT_RESET = 1 };

/* The operations on one kind of register page, over a HAL's read32 and write32. */
typedef struct lds_register_block {
  const char *name;
  uint32_t flags;
  /* LDS_HAL_OK when the device is present and has this CONFIG_HASH; LDS_HAL_UNSUPPORTED when no such page answers,
   * LDS_HAL_FAILED when another device's does. Blocks without identity write a register of an idle device and read it. */
  int (*identify)(const lds_hal *hal, uint32_t config_hash);
  void (*start)(const lds_hal *hal, const lds_job *job);
  void (*state)(const lds_hal *hal, lds_device_state *out); /* what is not said is as it was */
  void (*irq_clear)(const lds_hal *hal);
  int (*stop)(const lds_hal *hal, int how); /* LDS_HAL_UNSUPPORTED when the page cannot do it */
  void (*counters)(const lds_hal *hal, lds_counters *out);
} lds_register_block;

/* Loadstone's own page; the Chisel shell of VTA (DE10-Nano); the HLS blocks of VTA (PYNQ, Ultra96, ZCU104). */
#ifndef LDS_CDEF
LDS_HAL_EXPORT extern const lds_register_block lds_registers_native;
LDS_HAL_EXPORT extern const lds_register_block lds_registers_chisel;
LDS_HAL_EXPORT extern const lds_register_block lds_registers_hls;
#endif
/* By the name in a device's JSON: "native", "vta-chisel", "vta-hls"; NULL for another. */
LDS_HAL_EXPORT const lds_register_block *lds_registers_named(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* LDS_HAL_H */
