/* The public interface of the C runtime.
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
 * Every function that returns int returns LDS_OK (0), LDS_BUSY (1), or a negative LDS_ERR_*. The only memory that the runtime
 * allocates is DMA memory, through the HAL; of the C library it uses only memcpy and memset.
 *
 * Threads. There is no global state: devices are independent of each other, and an opened model is only read.
 *   - A device runs one session at a time: from lds_session_start until lds_session_wait returns anything but LDS_BUSY, or until
 *     lds_session_close. Meanwhile lds_session_start and lds_session_run return LDS_ERR_STATE for its other sessions, change nothing,
 *     and may be called again. These two may be called from any thread at any time; but from one thread at a time where the compiler
 *     is neither GCC nor Clang, or the processor lacks an atomic exchange (ARMv6-M).
 *   - All other functions are called for one session from one thread at a time.
 *   - During lds_session_open and lds_session_close no other thread may be in a call for a session of the same device, because these
 *     two allocate and free memory through the HAL. Within one thread they may be called in any state of the other sessions.
 *   - No function may be called from an interrupt handler. The function of an external step may call for its own session only
 *     lds_session_step and lds_session_operand.
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
  LDS_BUSY = 1, /* lds_session_wait: the timeout passed, and the device is still working */

  LDS_ERR_ARGUMENT = -1, /* a pointer is NULL, an index is out of range, or a size is not the tensor's */
  LDS_ERR_STATE = -2,    /* calls in the wrong order: wait without start, or start while a session of the device runs */
  LDS_ERR_MEMORY = -3,   /* the memory given is too small, or the HAL has no DMA memory left */
  LDS_ERR_ADDRESS = -4,  /* a buffer's bus address is misaligned, wraps around, or is beyond what the device can address */
  LDS_ERR_PLACE = -5,    /* a position, or the rows behind it, lie beyond the places of a cache; or there are not so many rows */

  LDS_ERR_CANCELLED = -6, /* the run was cancelled before its end */

  LDS_ERR_MAGIC = -10,       /* not an artifact (R1) */
  LDS_ERR_VERSION = -11,     /* an artifact of another format version (R2) */
  LDS_ERR_TRUNCATED = -12,   /* the size differs from that in the header (R3) */
  LDS_ERR_CHECKSUM = -13,    /* the content is damaged (R4) */
  LDS_ERR_FORMAT = -14,      /* a table breaks one of FORMAT.md's rules (R5 to R18, R22 to R24) */
  LDS_ERR_OPERATOR = -15,    /* a host step breaks one of FORMAT.md's rules (R19 to R21), or the operator is not linked in */
  LDS_ERR_EXTERNAL = -16,    /* a step needs a function that only the Python runtime has */
  LDS_ERR_ACCELERATOR = -17, /* a step is for a device that the session was not given */

  LDS_ERR_CONFIG = -20,      /* the model was compiled for another device */
  LDS_ERR_INSTRUCTION = -21, /* an unknown opcode, memory or field value, a reserved bit, or a capability that the device lacks */
  LDS_ERR_DRAM = -22,        /* an access leaves its region, or stores where the device may not write */
  LDS_ERR_SRAM = -23,        /* an access leaves a scratchpad */
  LDS_ERR_UOP = -24,         /* micro-ops that were not loaded, or were loaded from memory that is not constant */
  LDS_ERR_TOKEN = -25,       /* tokens deadlock, overflow, or are left over */
  LDS_ERR_FINISH = -26,      /* FINISH is missing, not last, or does not wait for load and store */

  LDS_ERR_RESIDUE = -27, /* a tile is read that its own program has not certainly written (V17; lds_schedule.h) */

  LDS_ERR_DEVICE = -30, /* the device stopped with an error: lds_session_fault says which */
  LDS_ERR_HUNG = -31,   /* the device made no progress; it was reset and is usable again */
  LDS_ERR_DEAD = -32,   /* the device made no progress and could not be reset; the next start tries again */
  LDS_ERR_ABSENT = -33, /* no device answers */
  LDS_ERR_HAL = -34     /* a HAL callback failed, or the HAL lacks one or has another ABI version */
};

/* The status as one line of text; never NULL. */
LDS_EXPORT const char *lds_status_text(int status);

/* --- models --------------------------------------------------------------------------------------------------------------- */
enum { LDS_SECTIONS = 10, LDS_REGIONS = 8, LDS_RANK = 6 };

typedef struct lds_table {
  const uint8_t *bytes;
  uint32_t count;
} lds_table;

/* An opened artifact. It points into the caller's bytes, which must stay valid. */
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
  LDS_ELEMENT_TYPES /* the number of types: every table that is indexed by type has this many entries */
};

/* One of the functions of a model: its steps, and its inputs and outputs among those of the model. */
typedef struct lds_entry {
  const char *name;
  uint32_t first_step, steps, first_input, inputs, first_output, outputs;
} lds_entry;

/* Checks all rules of FORMAT.md except those of host steps (R19 to R21) and of relocations (R23), which lds_session_open
 * checks, and of entries (R24), which lds_model_entry checks. */
LDS_EXPORT int lds_model_open(lds_model *model, const void *bytes, size_t size_bytes);
LDS_EXPORT const char *lds_model_name(const lds_model *model);
/* Of a device by its number, which the model has; 0 is that of the session that runs it. The fingerprint's 32 bytes decide what its
 * programs mean, those of a VTA being lds_hw_config and zeros; its register CONFIG_HASH holds their hash. */
LDS_EXPORT const char *lds_model_device(const lds_model *model, uint32_t device);
LDS_EXPORT const uint8_t *lds_model_fingerprint(const lds_model *model, uint32_t device);
LDS_EXPORT uint32_t lds_model_config_hash(const lds_model *model, uint32_t device);
/* How many devices it names, and whether it has programs for one of them; how one is configured, as JSON. */
LDS_EXPORT uint32_t lds_model_device_count(const lds_model *model);
LDS_EXPORT int lds_model_uses(const lds_model *model, uint32_t device);
LDS_EXPORT const char *lds_model_device_attributes(const lds_model *model, uint32_t device);
LDS_EXPORT uint32_t lds_model_input_count(const lds_model *model);
LDS_EXPORT uint32_t lds_model_output_count(const lds_model *model);
LDS_EXPORT int lds_model_input(const lds_model *model, uint32_t index, lds_tensor *out);
LDS_EXPORT int lds_model_output(const lds_model *model, uint32_t index, lds_tensor *out);

/* Entries share constants, states and memory. A model that names none has one, all of it, whose name is "". LDS_ERR_ARGUMENT: there is no
 * such index; LDS_ERR_FORMAT: the table of entries breaks rule R24, which lds_model_open does not check. The inputs and outputs above are
 * those of all entries, one behind the other. */
LDS_EXPORT int lds_model_entry(const lds_model *model, uint32_t index, lds_entry *out);

/* --- validation ----------------------------------------------------------------------------------------------------------- */
/* Where an error occurred. A field that does not apply is 0. */
typedef struct lds_fault {
  int32_t status;       /* LDS_ERR_* */
  uint32_t step;        /* index of the step */
  uint32_t instruction; /* index in the step's program */
  uint32_t error;       /* the device's error: LDS_ERROR_* (lds_isa.h) */
  uint32_t error_addr;  /* the low 32 bits of the bus address that the device reports */
  const char *layer;    /* the layer that the instruction belongs to */
  uint32_t device;      /* which of the model's it was: lds_model_device has its name */
} lds_fault;

/* Checks `count` instructions of a VTA, given by its number among the model's devices, by the rules of VALIDATION.md. constants[r]: the
 * content of region r, NULL where the host has none. scratch: lds_validate_scratch_bytes(model, device) bytes, aligned to 8. */
LDS_EXPORT size_t lds_validate_scratch_bytes(const lds_model *model, uint32_t device);
LDS_EXPORT int lds_validate(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count,
                            const uint8_t *const *constants, void *scratch, lds_fault *fault);
/* Validates all programs of VTAs in a model. scratch: lds_model_scratch_bytes(model) bytes, aligned to 8. fault may be NULL. */
LDS_EXPORT size_t lds_model_scratch_bytes(const lds_model *model);
LDS_EXPORT int lds_model_validate(const lds_model *model, void *scratch, size_t scratch_bytes, lds_fault *fault);

/* Checks rule R23 of FORMAT.md; lds_session_open does so too. */
LDS_EXPORT int lds_relocations_check(const lds_model *model);
/* Validates the program of a step, given in `code`, by its accelerator's table; `fault` receives the instruction and its layer.
 * constants[r]: the content of region r where no device changes it, else NULL. scratch: lds_program_scratch_bytes, aligned to 4. */
LDS_EXPORT size_t lds_program_scratch_bytes(const lds_accelerator *accelerator);
LDS_EXPORT int lds_program_validate(const lds_model *model, uint32_t step, const lds_accelerator *accelerator, const uint8_t *code,
                                    const uint8_t *const *constants, void *scratch, size_t scratch_bytes, lds_fault *fault);

/* --- devices and sessions ------------------------------------------------------------------------------------------------- */
typedef struct lds_device {
  const lds_hal *hal;
  const lds_register_block *registers;
  uint32_t config_hash;
  uint32_t seen;    /* lds_device_state.seen of the running program */
  int32_t dead;     /* 1: it made no progress and could not be reset so far */
  uint32_t claimed; /* 1: a session runs */
} lds_device;

/* config_hash: the CONFIG_HASH that the port expects. 0: the artifact's is compared with the register, or trusted where the device has
 * no such register. */
LDS_EXPORT int lds_device_open(lds_device *device, const lds_hal *hal, const lds_register_block *registers, uint32_t config_hash);

typedef struct lds_operand {
  lds_tensor tensor;
  uint8_t *data;
} lds_operand;

enum { LDS_OPERATORS = 36 };

/* Host operators. `check` checks a step (rules R19 to R21 of FORMAT.md) before `run[operator]` executes it on its operands: the inputs,
 * then the outputs. An entry that is NULL is not linked in: a model with such a step gets LDS_ERR_OPERATOR. `ready` says before each
 * run whether the numbers in its operands let it run, as a place in a cache must: LDS_OK or LDS_ERR_PLACE; NULL where no operator asks. */
typedef struct lds_operator_set {
  int (*check)(const lds_model *model, uint32_t step);
  void (*run[LDS_OPERATORS])(const lds_operand *operands, const int32_t *parameters);
  int (*ready)(uint32_t operator_code, const lds_operand *operands, const int32_t *parameters);
} lds_operator_set;

/* lds_operators: the operators that move bytes, quantize and dequantize, and softmax. lds_real_operators: those on
 * real numbers, too (up to 27 of FORMAT.md). lds_all_operators: all. lds_operators.h declares them one by one, for a set of your own. */
#ifndef LDS_CDEF
LDS_EXPORT extern const lds_operator_set lds_operators, lds_real_operators, lds_all_operators;
#endif
LDS_EXPORT int lds_step_check(const lds_model *model, uint32_t step);
LDS_EXPORT int lds_real_step_check(const lds_model *model, uint32_t step);
LDS_EXPORT int lds_row_step_check(const lds_model *model, uint32_t step);
LDS_EXPORT int lds_row_step_ready(uint32_t operator_code, const lds_operand *operands, const int32_t *parameters);

#define LDS_NOT_IN_PLACE UINT64_MAX

typedef struct lds_session lds_session;

/* The file whose programs a session validated last, by the checksum that lds_model_open compares with its bytes; zeros: none. If the
 * caller keeps this record, later sessions on the same file are opened without validation. Use it only where the file's bytes do not
 * change after lds_model_open, and where nobody can forge a file with the same CRC-32: for a file of your own, or one whose signature
 * you have checked. Keep one record for each lds_session_config, because other devices have other rules. */
typedef struct lds_validated {
  uint32_t checksum, size_bytes;
} lds_validated;

typedef struct lds_session_config {
  const struct lds_validator *validate; /* &lds_validator; NULL trusts the instructions, and the validator is not linked in */
  const lds_operator_set *operators;    /* &lds_operators; NULL: models without host steps only */
  /* The device counts as hung after hang_ns without progress; where its register page does not show progress, after hang_ns for the
   * whole program. 0: 5 s more than most_ns gives for the program of a VTA (5 s where most_ns is NULL, to leave it out of the link), and
   * 10 s for programs of tables. */
  uint64_t hang_ns;
  uint64_t (*most_ns)(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count, uint64_t clock_hz);
  uint64_t clock_hz;  /* the device's clock; 0: 16 MHz, and no board is slower */
  uint64_t model_bus; /* bus address of the model's bytes where the device can read them; LDS_NOT_IN_PLACE: constants are copied */
  lds_dma_buffer region[LDS_REGIONS]; /* the caller's buffers for regions; cpu NULL: the session allocates one */
  int (*external)(void *ctx, lds_session *session, uint32_t step); /* executes an external step: LDS_OK or an error; NULL: none */
  void *external_ctx;
  const lds_accelerator *accelerators; /* further devices that the artifact names: set by lds_session_config_accelerators */
  uint32_t accelerator_count;
  const struct lds_further *further;
  lds_validated *validated; /* NULL: every session validates its file */
} lds_session_config;

/* What lds_session_config.validate is: lds_validate for the programs of VTAs. */
#ifndef LDS_CDEF
LDS_EXPORT extern const struct lds_validator lds_validator;
#endif

/* An upper bound of the cycles of a program of a VTA, given by its number among the model's devices, on any bus. */
LDS_EXPORT uint64_t lds_cycles_at_most(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count);
/* Sixteen times the time of lds_cycles_at_most at a clock; clock_hz 0: 16 MHz. */
LDS_EXPORT uint64_t lds_most_ns(const lds_model *model, uint32_t device, const uint8_t *instructions, uint32_t count, uint64_t clock_hz);

/* Sets the defaults: lds_validate, lds_operators, constants copied, and hang_ns 0 with lds_most_ns. */
LDS_EXPORT void lds_session_config_default(lds_session_config *config);

/* Sets lds_real_operators. A firmware that does not call this function does not link the operators on real numbers. */
LDS_EXPORT void lds_session_config_real(lds_session_config *config);
/* Sets lds_all_operators, those on rows of decoders among them. */
LDS_EXPORT void lds_session_config_all(lds_session_config *config);

/* Sets the further devices, and links in the functions that validate the programs of tables. The array and what it points to must
 * stay valid. All devices see the DMA memory of the session's own HAL at the same bus addresses; while the session runs, no other
 * session may use them. */
LDS_EXPORT void lds_session_config_accelerators(lds_session_config *config, const lds_accelerator *accelerators, uint32_t count);

/* The bytes of memory that lds_session_open needs from the caller. 0 for a NULL argument; SIZE_MAX when they are more than a size_t can
 * hold: lds_session_open then returns LDS_ERR_MEMORY. */
LDS_EXPORT size_t lds_session_size_bytes(const lds_model *model, const lds_session_config *config);

/* Validates the model, allocates DMA memory, and copies constants and instructions. The model, the device and `memory` must stay valid
 * until lds_session_close. fault may be NULL. On an error everything allocated is freed. */
LDS_EXPORT int lds_session_open(lds_session **session, const lds_model *model, lds_device *device, const lds_session_config *config,
                                void *memory, size_t memory_bytes, lds_fault *fault);
LDS_EXPORT void lds_session_close(lds_session *session);

/* Sets the model's states to their values at lds_session_open. Each run leaves the states to the next one; after a run that failed they
 * are undefined. For a model without states nothing happens. LDS_ERR_STATE while the session runs. */
LDS_EXPORT int lds_session_reset(lds_session *session);

/* These copy. size_bytes must be the tensor's size. */
LDS_EXPORT int lds_session_set_input(lds_session *session, uint32_t index, const void *data, size_t size_bytes);
LDS_EXPORT int lds_session_get_output(lds_session *session, uint32_t index, void *data, size_t size_bytes);
/* The tensor's own memory, without a copy; NULL when there is no such index. Write inputs before start, read outputs after wait. */
LDS_EXPORT void *lds_session_input(lds_session *session, uint32_t index);
LDS_EXPORT void *lds_session_output(lds_session *session, uint32_t index);

/* The caller's own memory in place of the session's, for one input or output. */
typedef struct lds_binding {
  uint8_t *data;                             /* aligned to the element's size; NULL: the session's memory */
  uint32_t region, offset_bytes, size_bytes; /* the part of the memory plan that it replaces, by the two functions below */
} lds_binding;
/* Fill in all fields but data, for a model that a session is open for. size_bytes is 0 when the tensor cannot be bound: the device
 * accesses it, a step writes an input or leaves a part of an output unwritten, or another tensor shares its memory.
 * LDS_ERR_ARGUMENT: there is no such index. */
LDS_EXPORT int lds_binding_input(const lds_model *model, uint32_t index, lds_binding *out);
LDS_EXPORT int lds_binding_output(const lds_model *model, uint32_t index, lds_binding *out);
/* Replaces all bindings, from the next run on. The array must stay valid until the next call, and the memory of an output must not
 * overlap any other. count 0: the session uses its own memory again. LDS_ERR_STATE while the session runs. */
LDS_EXPORT int lds_session_bind(lds_session *session, const lds_binding *bindings, uint32_t count);

/* lds_session_start, then lds_session_wait until the run ends. LDS_ERR_STATE while this or another session of its device runs. */
LDS_EXPORT int lds_session_run(lds_session *session);
LDS_EXPORT int lds_session_start(lds_session *session);
/* The same with another entry than the first. Inputs of other entries may stand in the same memory: set them before each start. */
LDS_EXPORT int lds_session_start_entry(lds_session *session, uint32_t entry);
/* LDS_BUSY after timeout_ns: call it again. Host steps are executed within start and wait. */
LDS_EXPORT int lds_session_wait(lds_session *session, uint64_t timeout_ns);
/* Stops the device and ends the run; the outputs are undefined. LDS_ERR_DEAD when the device cannot be stopped. */
LDS_EXPORT int lds_session_stop(lds_session *session);

/* For `external`: the description of a step, and its operands (the inputs, then the outputs). */
typedef struct lds_step_info {
  const char *name, *function, *attributes;
  uint32_t inputs, outputs;
} lds_step_info;
LDS_EXPORT int lds_session_step(const lds_session *session, uint32_t step, lds_step_info *out);
LDS_EXPORT int lds_session_operand(lds_session *session, uint32_t step, uint32_t index, lds_operand *out);

/* The sum over all programs of the last run. */
LDS_EXPORT void lds_session_counters(const lds_session *session, lds_counters *out);
/* Where the last run that failed did so. */
LDS_EXPORT void lds_session_fault(const lds_session *session, lds_fault *out);

#ifdef __cplusplus
}
#endif

#endif /* LOADSTONE_H */
