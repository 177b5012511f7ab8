/* The simulator of VTA and VTA-Q: it executes a program, and counts the cycles that it takes.
 *
 * In:   a device (lds_hw_config, timing constants), host memory placed at bus addresses, a stream of instructions in it.
 * Out:  the memory after the run; cycles, counters, findings, events.
 * Next: python/loadstone/vta/simulator/sim.py (cffi); lds_simdev.h adds a register page to this core.
 *
 * A simulator is one device. Two threads must not use it at once, except through lds_sim_abort and lds_sim_progress.
 * No program can crash or hang it: each access is checked, and a run ends at its cycle limit.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SIM_H
#define LDS_SIM_H

#ifndef LDS_CDEF
#include <stddef.h>
#include <stdint.h>

#include "lds_isa.h"
#endif

#if defined(LDS_CDEF) && !defined(LDS_CDEF_HW_CONFIG)
#define LDS_CDEF_HW_CONFIG
/* As in lds_isa.h, which cffi does not read: the 20 bytes of HwConfig.configuration(). */
typedef struct lds_hw_config {
  uint8_t isa_version, log_inp_width, log_wgt_width, log_acc_width;
  uint8_t log_batch, log_block, log_uop_buff, log_inp_buff, log_wgt_buff, log_acc_buff, zero[2];
  uint32_t uop_depth, capabilities;
} lds_hw_config;
#endif

#if defined(LDS_CDEF)
#define LDS_SIM_EXPORT
#elif defined(__GNUC__)
#define LDS_SIM_EXPORT __attribute__((visibility("default")))
#else
#define LDS_SIM_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lds_sim lds_sim;

/* Options. At first TIMING is 1, and all others are 0. (Enumerations instead of macros, because cffi reads them.) */
enum {
  LDS_SIM_STRICT = 0,      /* 1: stop where VTA's hardware would compute something else (LDS_ERROR_UNSAFE) */
  LDS_SIM_TIMING = 1,      /* 1: count cycles; 0: only a lower bound of them, for cycle_limit */
  LDS_SIM_CHECK_RACES = 2, /* 1: report accesses that no token orders */
  LDS_SIM_CHECK_INIT = 3,  /* 1: report reads of scratchpad tiles that were never written */
  LDS_SIM_TRACE = 4,       /* 1: record an event for each instruction; needs TIMING */
  LDS_SIM_KERNELS = 5,     /* LDS_SIM_KERNELS_*: force a path; refused when the CPU lacks it */
  LDS_SIM_ORDER = 6        /* LDS_SIM_ORDER_*: which instruction runs next where tokens leave a choice */
};

/* A program whose tokens order all dependent accesses computes the same in every order; one that lacks a token may not. */
enum {
  LDS_SIM_ORDER_PROGRAM = 0,    /* the first in program order */
  LDS_SIM_ORDER_LOAD_FIRST = 1, /* load as far ahead as tokens allow, then compute; stores late */
  LDS_SIM_ORDER_STORE_FIRST = 2 /* store and compute as early as tokens allow; loads late */
};

/* Implementations of the inner loops, all with the same results. AVX512 needs VNNI, NEON arm64's dot products, and WASM WebAssembly's
 * vectors. */
enum {
  LDS_SIM_KERNELS_BEST = 0,
  LDS_SIM_KERNELS_PORTABLE = 1,
  LDS_SIM_KERNELS_AVX2 = 2,
  LDS_SIM_KERNELS_AVX512 = 3,
  LDS_SIM_KERNELS_NEON = 4,
  LDS_SIM_KERNELS_WASM = 5
};

/* Flag of lds_sim_map: stores are refused. */
enum { LDS_SIM_READ_ONLY = 1 };

/* Return values of the functions below that return int. */
enum {
  LDS_SIM_OK = 0,
  LDS_SIM_BAD_ARGUMENT = -1, /* lds_sim_message names it */
  LDS_SIM_NO_MEMORY = -2,    /* the host's memory is exhausted */
  LDS_SIM_BUSY = -3          /* a job is running */
};

/* Readers of DRAM, in the order of their priority on the bus: the index of read_bytes. */
enum {
  LDS_SIM_READ_FETCH = 0,
  LDS_SIM_READ_UOP = 1,
  LDS_SIM_READ_INP = 2,
  LDS_SIM_READ_WGT = 3, /* WGT, WGT_4BIT and WGT_PLANES */
  LDS_SIM_READ_ACC = 4  /* ACC and ACC_8BIT */
};

/* The result of one run. Arrays of 3 are indexed by LDS_STAGE_*; cycles are those of the timing model, and 0 without LDS_SIM_TIMING. */
typedef struct lds_sim_result {
  uint32_t status;        /* LDS_ERROR_* */
  uint32_t error_pc;      /* index of the instruction that failed */
  uint64_t error_address; /* bus address that failed, for DRAM_BOUNDS and BUS */
  uint64_t cycles;        /* from the start to FINISH */
  uint32_t insns_done;    /* instructions completed */
  uint32_t findings;      /* races and uninitialised reads, including those that lds_sim_findings no longer keeps */
  uint64_t insns[7];      /* completed, by LDS_OPCODE_* */
  uint64_t busy_cycles[3];
  uint64_t stall_token_cycles[3]; /* an instruction waited for a token */
  uint64_t stall_fetch_cycles[3]; /* the queue was empty */
  uint64_t stall_dram_cycles[3];  /* part of busy_cycles: the stage waited for the read channel, or shared it */
  uint64_t read_bytes[5];         /* bytes that the program requests; by LDS_SIM_READ_* */
  uint64_t write_bytes;
  uint64_t read_beats, write_beats; /* on the bus */
  uint64_t read_bursts, write_bursts;
  uint64_t macs; /* multiply-accumulates of GEMM steps that do not reset */
  uint64_t gemm_steps, alu_steps;
} lds_sim_result;

/* A race, or a read of uninitialised memory. */
enum { LDS_SIM_FINDING_RACE_SRAM = 1, LDS_SIM_FINDING_RACE_DRAM = 2, LDS_SIM_FINDING_UNINITIALISED = 3 };

typedef struct lds_sim_finding {
  uint32_t kind;        /* LDS_SIM_FINDING_* */
  uint32_t memory;      /* LDS_MEMORY_* (not for RACE_DRAM) */
  uint32_t insn, other; /* indices of the instructions; of an uninitialised read `insn` alone */
  uint32_t writes;      /* races: bit 0: insn writes; bit 1: other writes */
  uint32_t count;       /* tiles, or bytes of DRAM */
  uint64_t first;       /* first tile, or bus address */
} lds_sim_finding;

/* The time of one instruction in cycles. enter <= ready <= start <= end. */
typedef struct lds_sim_event {
  uint32_t insn;
  uint32_t stage;                /* LDS_STAGE_* */
  uint64_t enter;                /* the stage has completed the instruction before */
  uint64_t ready;                /* the instruction is in the stage's queue: until here the stage waits for fetch */
  uint64_t start;                /* its tokens have been popped: until here the stage waits for tokens */
  uint64_t end;                  /* its own tokens have been pushed */
  uint32_t from_prev, from_next; /* instructions that pushed the tokens it popped; UINT32_MAX: none */
  uint32_t dram_cycles;          /* cycles that it waited for the read channel */
} lds_sim_event;

/* NULL when the configuration is invalid (HwConfig states the limits) or memory is exhausted. Scratchpads hold zeros. */
LDS_SIM_EXPORT lds_sim *lds_sim_create(const lds_hw_config *config, uint32_t bus_bits);
LDS_SIM_EXPORT void lds_sim_destroy(lds_sim *sim);

/* The message of the last call or run, one line; "" when there is none. Valid until the next call. */
LDS_SIM_EXPORT const char *lds_sim_message(const lds_sim *sim);

LDS_SIM_EXPORT int lds_sim_set_option(lds_sim *sim, int option, int value);
LDS_SIM_EXPORT int lds_sim_get_option(const lds_sim *sim, int option); /* KERNELS: the path in use */

/* Sets a constant of the timing model by its name (vta/devices/timing/NAME.json). Constants that are not set are those of vta-rtl. */
LDS_SIM_EXPORT int lds_sim_set_timing(lds_sim *sim, const char *name, int64_t value);

/* Places host memory at a bus address. Segments must not overlap; an access may span neighbouring ones. */
LDS_SIM_EXPORT int lds_sim_map(lds_sim *sim, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags);
LDS_SIM_EXPORT void lds_sim_unmap_all(lds_sim *sim);

/* Sets a DRAM region in the form of the registers REGION_BASE and REGION_LIMIT: in bytes; bit 63 of the limit refuses stores. On a
 * device without regions it has no effect. */
LDS_SIM_EXPORT int lds_sim_set_region(lds_sim *sim, uint32_t region, uint64_t base, uint64_t limit);

/* For bounds, before a program's memory has a place: from now on each LOAD and STORE is timed at that place, of those which are a multiple
 * of align_bytes (a power of two) away from its own, where it takes the most bursts; and each burst that is read waits for
 * read_latency_cycles, since those before it may be served sooner. 0: where it stands, as it is. What is read and written is the same. */
LDS_SIM_EXPORT int lds_sim_at_worst(lds_sim *sim, uint32_t align_bytes);

/* Sets scratchpads to zero, and marks them as never written. (A run keeps their content, as hardware does.) */
LDS_SIM_EXPORT void lds_sim_reset(lds_sim *sim);

/* Runs `count` instructions at a bus address. The stream is copied first. cycle_limit 0: there is none. *result is always filled in;
 * the return value is result->status, or negative for a bad argument. */
LDS_SIM_EXPORT int lds_sim_run(lds_sim *sim, uint64_t insn_address, uint32_t count, uint64_t cycle_limit, lds_sim_result *result);

/* Times the last runs of several devices once more, as if all of them had started in the same cycle, and had one bus to the memory
 * (docs/timing.md). They are equally wide; the constants of the bus are those of the first. results: of each what its run had, with the
 * cycles of all together; events are recorded anew. What they computed does not depend on it. LDS_SIM_BAD_ARGUMENT: lds_sim_message of
 * the simulator that is refused names the reason. */
LDS_SIM_EXPORT int lds_sim_time_together(lds_sim *const *sims, uint32_t count, lds_sim_result *results);

/* For other threads. lds_sim_abort ends the run within milliseconds, even within an instruction (LDS_ERROR_ABORTED); lds_sim_progress
 * returns the number of instructions completed so far. */
LDS_SIM_EXPORT void lds_sim_abort(lds_sim *sim);
LDS_SIM_EXPORT uint32_t lds_sim_progress(const lds_sim *sim);

/* Sets a function that the thread that runs a program calls a few dozen times a second; a result other than 0 ends the run as
 * lds_sim_abort does. NULL: none. (With it Ctrl-C works in languages whose signal handlers run in this thread.) */
LDS_SIM_EXPORT void lds_sim_on_poll(lds_sim *sim, int (*ask)(void *ctx), void *ctx);

/* Sets a function that is called before each instruction, when its tokens are popped, with its index; a result other than 0 ends the run
 * there, as lds_sim_abort does, and what the instructions before it did stays. NULL: none. For debuggers. */
LDS_SIM_EXPORT void lds_sim_on_insn(lds_sim *sim, int (*ask)(void *ctx, uint32_t insn), void *ctx);

/* The findings (the first 1000) and the events (in the order of their ends) of the last run; valid until the next one. */
LDS_SIM_EXPORT size_t lds_sim_findings(const lds_sim *sim, const lds_sim_finding **findings);
LDS_SIM_EXPORT size_t lds_sim_events(const lds_sim *sim, const lds_sim_event **events);

/* The instructions that wait in a deadlock: for each stage the index (UINT32_MAX: none), and the token that it waits for. */
typedef struct lds_sim_waiting {
  uint32_t insn[3];
  uint32_t for_stage[3]; /* LDS_STAGE_* that would push it */
} lds_sim_waiting;
LDS_SIM_EXPORT void lds_sim_deadlock(const lds_sim *sim, lds_sim_waiting *waiting);

/* Copies scratchpad tiles, in the form in which LOAD reads them from DRAM (ACC: int32 lanes). For debuggers. */
LDS_SIM_EXPORT int lds_sim_read_scratchpad(lds_sim *sim, uint32_t memory, uint32_t first_tile, uint32_t tiles, void *out);

#ifdef __cplusplus
}
#endif

#endif /* LDS_SIM_H */
