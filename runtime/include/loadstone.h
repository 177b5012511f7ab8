/* The public face of the C runtime.
 *
 * In:   an artifact's bytes, a HAL with a register block, memory from the caller.
 * Out:  a session that runs the model.
 * Next: lds_hal.h is what a board implements; runtime/FORMAT.md is what the bytes mean.
 *
 *     lds_model model;             lds_model_open(&model, bytes, size);
 *     lds_device device;           lds_device_open(&device, hal, &lds_registers_native, 0);
 *     lds_session_config config;   lds_session_config_default(&config);
 *     lds_session *session;        lds_session_open(&session, &model, &device, &config, memory, lds_session_size_bytes(&model, &config));
 *     lds_session_set_input(session, 0, x, sizeof x);
 *     lds_session_run(session);
 *     lds_session_get_output(session, 0, y, sizeof y);
 *     lds_session_close(session);
 *
 * Every function that returns int returns LDS_OK (0), LDS_BUSY (1), or a negative LDS_ERR_*. Nothing is allocated but DMA
 * memory through the HAL; of libc only memcpy and memset are used.
 *
 * Threads. Nothing is global: devices know nothing of each other, and a model, once opened, is only read.
 *   - A device runs one session at a time: from lds_session_start until lds_session_wait returns something else than LDS_BUSY, or
 *     lds_session_close. Meanwhile start and run of its other sessions return LDS_ERR_STATE, touch nothing, and may be called again.
 *     They may come from any thread at any time (from one at a time where the compiler is neither GCC nor Clang, or the processor has
 *     no atomic exchange, as ARMv6-M).
 *   - All other calls for a session come from one thread at a time.
 *   - While lds_session_open or lds_session_close works, no other thread is in a call for a session of the same device: they take and
 *     give back the HAL's memory. In one thread they may be called whatever the other sessions do.
 *   - No call comes from an interrupt handler; an external step's function leaves its own session alone but for the calls made for it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOADSTONE_H
#define LOADSTONE_H

#ifndef LDS_CDEF
#include <stddef.h>
#include <stdint.h>
#endif

#include "lds_accelerator.h"
#include "lds_hal.h"

#if defined(LDS_CDEF)
#define LDS_EXPORT
#elif defined(__GNUC__)
#define LDS_EXPORT __attribute__((visibility("default")))
#else
#define LDS_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the C interface: major * 10000 + minor * 100 + patch. */
LDS_EXPORT uint32_t lds_version(void);

/* --- statuses ------------------------------------------------------------------------------------------------------------- */
enum {
  LDS_OK = 0,
  LDS_BUSY = 1, /* lds_session_wait: the time passed, the device is still working */

  LDS_ERR_ARGUMENT = -1, /* a pointer is NULL, an index beyond what there is, or a size is not the tensor's */
  LDS_ERR_STATE = -2,    /* not in this order: wait without start, start while this or another session of the device runs */
  LDS_ERR_MEMORY = -3,   /* the memory given is too small, or the HAL has no DMA memory left */
  LDS_ERR_ADDRESS = -4,  /* a buffer's bus address is misaligned, wraps, or is beyond what the device can address */

  LDS_ERR_MAGIC = -10,       /* not an artifact (R1) */
  LDS_ERR_VERSION = -11,     /* an artifact of another format version (R2) */
  LDS_ERR_TRUNCATED = -12,   /* the size is not what the header says (R3) */
  LDS_ERR_CHECKSUM = -13,    /* the content is damaged (R4) */
  LDS_ERR_FORMAT = -14,      /* a table breaks one of FORMAT.md's rules (R5 to R18, R22, R23) */
  LDS_ERR_OPERATOR = -15,    /* a host step breaks one of FORMAT.md's rules (R19 to R21), or the operator is not linked in */
  LDS_ERR_EXTERNAL = -16,    /* a step needs a function that only the Python runtime has */
  LDS_ERR_ACCELERATOR = -17, /* a step is for a device that the session was not given */

  LDS_ERR_CONFIG = -20,      /* the model is for another device than this one */
  LDS_ERR_INSTRUCTION = -21, /* unknown opcode, memory, field value or reserved bit; or a capability the device has not */
  LDS_ERR_DRAM = -22,        /* an access leaves its region, or stores where the device may not write */
  LDS_ERR_SRAM = -23,        /* an access leaves a scratchpad */
  LDS_ERR_UOP = -24,         /* micro-ops that were not loaded, or not from constants */
  LDS_ERR_TOKEN = -25,       /* tokens deadlock, overflow, or are left over */
  LDS_ERR_FINISH = -26,      /* FINISH is missing, not last, or does not wait for load and store */

  LDS_ERR_DEVICE = -30, /* the device stopped with an error: lds_session_fault says which */
  LDS_ERR_HUNG = -31,   /* the device made no progress; it was reset and is usable again */
  LDS_ERR_DEAD = -32,   /* the device made no progress and could not be reset; the next start tries again */
  LDS_ERR_ABSENT = -33, /* no device answers */
  LDS_ERR_HAL = -34     /* a HAL callback failed, or the HAL lacks one or has another ABI version */
};

/* One line for people; never NULL. */
LDS_EXPORT const char *lds_status_text(int status);

/* --- models --------------------------------------------------------------------------------------------------------------- */
enum { LDS_SECTIONS = 10, LDS_REGIONS = 8, LDS_RANK = 6 };

typedef struct lds_table {
  const uint8_t *bytes;
  uint32_t count;
} lds_table;

/* An opened artifact: it points into the caller's bytes, which must stay. */
typedef struct lds_model {
  const uint8_t *bytes;
  uint32_t size_bytes, samples;
  lds_table section[LDS_SECTIONS];
} lds_model;

typedef struct lds_tensor {
  const char *name;
  uint8_t dtype, rank, region, layout; /* FORMAT.md, Tensors */
  uint32_t offset_bytes, size_bytes;
  float scale;
  int32_t zero_point;
  uint32_t dims[LDS_RANK];
  uint32_t batch_block, channel_block;
} lds_tensor;

enum {
  LDS_INT8,
  LDS_UINT8,
  LDS_INT16,
  LDS_INT32,
  LDS_INT64,
  LDS_FLOAT32,
  LDS_FLOAT16,
  LDS_BOOL,
  LDS_BFLOAT16,
  LDS_UINT16,
  LDS_UINT32,
  LDS_UINT64,
  LDS_FLOAT64,
  LDS_ELEMENT_TYPES /* how many: every table by type has so many entries */
};

/* Checks all rules of FORMAT.md but those of host steps (R19 to R21) and of relocations (R23), which lds_session_open checks. */
LDS_EXPORT int lds_model_open(lds_model *model, const void *bytes, size_t size_bytes);
LDS_EXPORT const char *lds_model_name(const lds_model *model);
/* Of a device by its number, which the model has; 0 is that of the session that runs it. The fingerprint's 32 bytes decide what its
 * programs mean, those of a VTA being lds_hw_config and zeros; its register CONFIG_HASH holds their hash. */
LDS_EXPORT const char *lds_model_device(const lds_model *model, uint32_t device);
LDS_EXPORT const uint8_t *lds_model_fingerprint(const lds_model *model, uint32_t device);
LDS_EXPORT uint32_t lds_model_config_hash(const lds_model *model, uint32_t device);
LDS_EXPORT uint32_t lds_model_input_count(const lds_model *model);
LDS_EXPORT uint32_t lds_model_output_count(const lds_model *model);
LDS_EXPORT int lds_model_input(const lds_model *model, uint32_t index, lds_tensor *out);
LDS_EXPORT int lds_model_output(const lds_model *model, uint32_t index, lds_tensor *out);

/* --- validation ----------------------------------------------------------------------------------------------------------- */
/* Where something went wrong. What does not apply is 0. */
typedef struct lds_fault {
  int32_t status;       /* LDS_ERR_* */
  uint32_t step;        /* index of the step */
  uint32_t instruction; /* index in the step's program */
  uint32_t error;       /* of the device: LDS_ERROR_* (lds_isa.h) */
  uint32_t error_addr;  /* of the device: low 32 bits of the bus address */
  const char *layer;    /* the layer this instruction is for, from the source map */
} lds_fault;

/* Checks `count` instructions of a VTA, by its number among the model's devices, against the allow-list, with constants[r] the content
 * of region r (NULL where the host has none). scratch: lds_validate_scratch_bytes(model, device), aligned to 8. */
LDS_EXPORT size_t lds_validate_scratch_bytes(const lds_model *model, uint32_t device);
LDS_EXPORT int lds_validate(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count,
                            const uint8_t *const *constants, void *scratch, lds_fault *fault);
/* All programs of VTAs in a model: those of a table are validated by what has the table. scratch: lds_model_scratch_bytes(model), aligned
 * to 8. fault may be NULL. */
LDS_EXPORT int lds_relocations_check(const lds_model *model); /* rule R23 */
LDS_EXPORT size_t lds_model_scratch_bytes(const lds_model *model);
LDS_EXPORT int lds_model_validate(const lds_model *model, void *scratch, size_t scratch_bytes, lds_fault *fault);

/* The program of a step, as it stands in `code`, against its accelerator's table; fault: the instruction, its layer. */
LDS_EXPORT int lds_program_validate(const lds_model *model, uint32_t step, const lds_accelerator *accelerator, const uint8_t *code,
                                    lds_fault *fault);

/* --- devices and sessions ------------------------------------------------------------------------------------------------- */
typedef struct lds_device {
  const lds_hal *hal;
  const lds_register_block *registers;
  uint32_t config_hash;
  uint32_t seen;    /* of the program that runs: lds_device_state.seen */
  int32_t dead;     /* it hung and did not come back so far */
  uint32_t claimed; /* 1: a session runs */
} lds_device;

/* config_hash: of the device as the port knows it; 0: the artifact's is compared with the register, or trusted where there is none. */
LDS_EXPORT int lds_device_open(lds_device *device, const lds_hal *hal, const lds_register_block *registers, uint32_t config_hash);

typedef struct lds_operand {
  lds_tensor tensor;
  uint8_t *data;
} lds_operand;

enum { LDS_OPERATORS = 28 };

/* Host operators: `check` finds a step sound (rules R19 to R21 of FORMAT.md) before `run[operator]` trusts it; NULL: not linked in, and
 * LDS_ERR_OPERATOR for a model with such a step. operands: inputs, then outputs. */
typedef struct lds_operator_set {
  int (*check)(const lds_model *model, uint32_t step);
  void (*run[LDS_OPERATORS])(const lds_operand *operands, const int32_t *parameters);
} lds_operator_set;

/* Those that move bytes, quantize, dequantize, and softmax; and with them all that FORMAT.md has. lds_operators.h: a set of one's own. */
#ifndef LDS_CDEF
LDS_EXPORT extern const lds_operator_set lds_operators, lds_real_operators;
#endif
LDS_EXPORT int lds_step_check(const lds_model *model, uint32_t step);
LDS_EXPORT int lds_real_step_check(const lds_model *model, uint32_t step);

#define LDS_NOT_IN_PLACE UINT64_MAX

typedef struct lds_session lds_session;

/* The file whose programs a session validated last, by the checksum that lds_model_open holds against its bytes; zeros: none. Kept by
 * the caller, it spares the next sessions on that file the validation: allow it where the file's bytes stay what they are after
 * lds_model_open, and where nobody makes a file for its checksum (a CRC-32): a file of your own, or one whose signature you have
 * checked. Of one config: other devices have other rules. */
typedef struct lds_validated {
  uint32_t checksum, size_bytes;
} lds_validated;

typedef struct lds_session_config {
  const struct lds_validator *validate; /* &lds_validator; NULL trusts the instructions (and leaves the validator out of the link) */
  const lds_operator_set *operators;    /* &lds_operators; NULL: models without host steps only */
  /* Without progress for so long the device hangs; on pages that show none, the whole program. 0: 5 s, and then sixteen times what a
   * VTA's program can take at clock_hz: `most_ns`, which is NULL where it is not to be linked in; programs of tables 10 s. */
  uint64_t hang_ns;
  uint64_t (*most_ns)(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count, uint64_t clock_hz);
  uint64_t clock_hz;  /* of the device; 0: 16 MHz, which no board is slower than */
  uint64_t model_bus; /* bus address of the model's bytes where the device can read them; LDS_NOT_IN_PLACE: constants are copied */
  lds_dma_buffer region[LDS_REGIONS]; /* buffers of the caller's own for regions; cpu NULL: the session allocates */
  int (*external)(void *ctx, lds_session *session, uint32_t step); /* executes external steps, LDS_OK or an error; NULL: there are none */
  void *external_ctx;
  const lds_accelerator *accelerators; /* further devices that the artifact names: lds_session_config_accelerators */
  uint32_t accelerator_count;
  const struct lds_further *further;
  lds_validated *validated; /* NULL: every session validates its file */
} lds_session_config;

/* What lds_session_config.validate is: lds_validate for the programs of VTAs. */
#ifndef LDS_CDEF
LDS_EXPORT extern const struct lds_validator lds_validator;
#endif

/* Cycles that a program of a VTA takes at most, on any bus. */
LDS_EXPORT uint64_t lds_cycles_at_most(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count);
/* Sixteen times what they take at a clock; 0: 16 MHz. */
LDS_EXPORT uint64_t lds_most_ns(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count, uint64_t clock_hz);

/* Validator and lds_operators linked in, nothing in place; when a device hangs follows from its program. */
LDS_EXPORT void lds_session_config_default(lds_session_config *config);

/* Gives a session lds_real_operators as well: functions of real numbers, which a firmware without a model that has them does not link. */
LDS_EXPORT void lds_session_config_real(lds_session_config *config);

/* Gives a session further devices, and links in what validates the programs of tables. The table and what it names must stay. All of
 * them see the DMA memory of the session's own HAL at the same bus addresses, and are the session's while it runs. */
LDS_EXPORT void lds_session_config_accelerators(lds_session_config *config, const lds_accelerator *accelerators, uint32_t count);

/* What lds_session_open needs of the caller's memory; 0 for a NULL argument; SIZE_MAX, and LDS_ERR_MEMORY from open, when it is more
 * than a size_t can say. */
LDS_EXPORT size_t lds_session_size_bytes(const lds_model *model, const lds_session_config *config);

/* Validates, allocates DMA memory, copies constants and instructions. The model, the device and `memory` must stay until close.
 * fault may be NULL. On an error everything allocated is freed. */
LDS_EXPORT int lds_session_open(lds_session **session, const lds_model *model, lds_device *device, const lds_session_config *config,
                                void *memory, size_t memory_bytes, lds_fault *fault);
LDS_EXPORT void lds_session_close(lds_session *session);

/* Makes the states of a model what they were when the session opened; LDS_ERR_STATE while it runs. Runs leave them for the next run,
 * also one that fails: its states are undefined. A model without states: nothing happens. */
LDS_EXPORT int lds_session_reset(lds_session *session);

/* By copy. size_bytes must be the tensor's. */
LDS_EXPORT int lds_session_set_input(lds_session *session, uint32_t index, const void *data, size_t size_bytes);
LDS_EXPORT int lds_session_get_output(lds_session *session, uint32_t index, void *data, size_t size_bytes);
/* Zero-copy: the tensor's memory. Write inputs before start, read outputs after wait; NULL for an index that is not. */
LDS_EXPORT void *lds_session_input(lds_session *session, uint32_t index);
LDS_EXPORT void *lds_session_output(lds_session *session, uint32_t index);

/* The caller's own memory in place of the session's, for one input or output. */
typedef struct lds_binding {
  uint8_t *data;                             /* at a multiple of the element's size; NULL: the session's memory */
  uint32_t region, offset_bytes, size_bytes; /* what it stands for, by the two functions below */
} lds_binding;
/* Everything but data, of a model that a session is open for. size_bytes 0: it cannot be bound, because the device itself sees it, steps
 * write an input, leave a part of an output as it was, or another tensor shares its memory. LDS_ERR_ARGUMENT: an index that is not. */
LDS_EXPORT int lds_binding_input(const lds_model *model, uint32_t index, lds_binding *out);
LDS_EXPORT int lds_binding_output(const lds_model *model, uint32_t index, lds_binding *out);
/* For the runs from now on, instead of those before; the table stays until the next call. Memory of outputs overlaps nothing else.
 * count 0: the session's own again. LDS_ERR_STATE while it runs. */
LDS_EXPORT int lds_session_bind(lds_session *session, const lds_binding *bindings, uint32_t count);

/* start + wait until done. LDS_ERR_STATE when this session, or another one of its device, runs. */
LDS_EXPORT int lds_session_run(lds_session *session);
LDS_EXPORT int lds_session_start(lds_session *session);
/* LDS_BUSY when timeout_ns have passed; call it again. Host steps run inside start and wait. */
LDS_EXPORT int lds_session_wait(lds_session *session, uint64_t timeout_ns);
/* Ends a run that was started and is not done: the device stops, the outputs are undefined. LDS_ERR_DEAD when it cannot be stopped. */
LDS_EXPORT int lds_session_stop(lds_session *session);

/* For `external`: what a step is, and its operands (inputs, then outputs). */
typedef struct lds_step_info {
  const char *name, *function, *attributes;
  uint32_t inputs, outputs;
} lds_step_info;
LDS_EXPORT int lds_session_step(const lds_session *session, uint32_t step, lds_step_info *out);
LDS_EXPORT int lds_session_operand(lds_session *session, uint32_t step, uint32_t index, lds_operand *out);

/* Of all programs of the last run together. */
LDS_EXPORT void lds_session_counters(const lds_session *session, lds_counters *out);
/* Of the last run that failed. */
LDS_EXPORT void lds_session_fault(const lds_session *session, lds_fault *out);

#ifdef __cplusplus
}
#endif

#endif /* LOADSTONE_H */
