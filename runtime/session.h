/* The state of a session. Private to runtime/.
 *
 * In:   session.c fills it.
 * Out:  the struct, and where a region's memory is.
 * Next: run.c executes it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SESSION_H
#define LDS_SESSION_H

#include "program.h"
#include "sizes.h"

typedef enum { LDS_IDLE, LDS_RUNNING, LDS_FINISHED } lds_phase;

struct lds_session {
  const lds_model *model;
  lds_device *device;
  lds_session_config config;
  lds_dma_buffer region[LDS_REGIONS];                       /* .cpu: where the host sees it; .flags 0: the host's own memory */
  lds_dma_buffer code;                                      /* the pinned section: all programs */
  lds_accelerator own;                                      /* device 0, as an accelerator */
  lds_device *running;                                      /* the device that is waited for, or worked last */
  uint32_t owned;                                           /* bit r: region r must be freed; bit LDS_REGIONS: the code */
  void (*move)(const lds_session *s, lds_operand *operand); /* to memory of the caller's: bind.c, where it is linked in */
  const lds_binding *bound;
  uint32_t bound_count;
  uint32_t to_fill; /* bit r: region r needs its constants or zeros */
  int writes_code;  /* binding a program writes into it */
  lds_phase phase;
  uint32_t step; /* the step that is being executed */
  uint32_t end;  /* the step behind the last of the entry that runs */
  uint32_t next; /* the first step after those in flight, which begin at `step` */
  uint32_t progress;
  uint64_t progress_ns; /* when the device last moved */
  uint64_t started_ns;  /* when it was first waited for */
  uint64_t limit_ns;    /* after this time without progress the device hangs; preliminary until `extended` is set */
  int extended;
  uint64_t spent;   /* cycles since the start of the programs before those in flight; side by side they count once */
  uint64_t longest; /* of those in flight the most */
  struct {
    lds_counters counters;
    lds_fault fault;
  } last; /* of the last run */
};

/* What validates the programs of VTAs; tables are validated where it is linked in. */
struct lds_validator {
  size_t (*scratch_bytes)(const lds_model *model);
  int (*program)(const lds_session *session, const lds_program *program, const uint8_t *code, lds_memory scratch, lds_fault *fault);
};

/* What programs of one kind of instructions need: of VTAs vta_program.c, of tables accelerator.c. */
typedef struct lds_program_kind {
  /* Whether an accelerator is there, and a program is for it. */
  int (*fits)(const lds_session *session, const lds_accelerator *accelerator, const lds_program *program);
  /* Validates a program as it stands in `code`. */
  int (*validate)(const lds_session *session, const lds_accelerator *accelerator, const lds_program *program, const uint8_t *code,
                  lds_memory scratch, lds_fault *fault);
  /* Writes the addresses of this session's regions into it. */
  int (*bind)(const lds_session *session, const lds_accelerator *accelerator, const lds_program *program, uint8_t *code);
  /* For how long it may work without progress, after which it hangs. */
  uint64_t (*most_ns)(const lds_session *session, const lds_program *program, const uint8_t *code);
} lds_program_kind;
extern const lds_program_kind lds_vta_programs;

/* The content of each region of constants, for validators; NULL for other regions. */
void lds_session_constants(const lds_session *session, const uint8_t **constants);

/* What a session with further devices needs: accelerator.c, where lds_session_config_accelerators links it in. */
typedef struct lds_further {
  /* The accelerator that is device number `device` of the model; NULL where the session was not given it. */
  const lds_accelerator *(*find)(const lds_session *session, uint32_t device);
  /* Whether all of them can address the memory of the session. */
  int (*reach)(const lds_session *session);
  /* Bytes of the caller's memory that validating the programs of their tables takes. */
  size_t (*scratch_bytes)(const lds_session_config *config);
  lds_program_kind tables;
  /* Starts the programs that may run concurrently with the one just started; session->next is the step after the last of them. */
  void (*start)(lds_session *session);
  /* Stops the programs in flight, except the one that is waited for. A device that cannot be stopped becomes session->running. */
  void (*stop)(lds_session *session);
} lds_further;

/* The accelerator that is device number `device` of the model; NULL where the session was not given it. */
const lds_accelerator *lds_session_accelerator(const lds_session *session, uint32_t device);
/* For how long a program may work without progress at least. */
#define LDS_LEAST_LIMIT_NS ((uint64_t)5u * 1000u * 1000u * 1000u)
/* How its programs are validated, bound, limited. */
const lds_program_kind *lds_accelerator_kind(const lds_session *session, const lds_accelerator *accelerator);
/* The device that executes the program of a step. */
lds_device *lds_program_device(const lds_session *session, uint32_t step);
/* Synchronizes one tensor's memory between host and device, after one of them wrote it. */
int lds_session_sync(lds_session *session, const lds_tensor *tensor, int direction);
/* Whether the device is present, has this CONFIG_HASH, and executes no program but those of this process. */
int lds_device_answers(lds_device *device, uint32_t config_hash);
/* Whether a device can address all of a buffer, and its bus address is a multiple of align_bytes. */
int lds_device_reaches(const lds_device *device, const lds_dma_buffer *buffer, uint32_t align_bytes);
/* The operands and parameters of a host step; returns their number. */
uint32_t lds_session_operands(lds_session *session, const lds_step *step, lds_operand *operands, int32_t *parameters);
/* Starts a run of the steps from `first` up to `end`. goes_on: it is the rest of a run that did those before. */
int lds_session_start_steps(lds_session *session, uint32_t first, uint32_t end, int goes_on);
/* Starts the program of a step; its device is s->running from now on. */
void lds_submit(lds_session *session, uint32_t step);
/* The session's own device at index 0, then those of its configuration; NULL beyond the last. */
lds_device *lds_session_device(const lds_session *session, uint32_t index);
/* Releases the first `count` of them for other sessions. */
void lds_session_release(const lds_session *session, uint32_t count);
/* Releases all devices of a session, and stops those that still run besides the one that was waited for. */
void lds_devices_release(lds_session *session);
/* Names the layer of an instruction of a step in *fault. */
void lds_fault_at(const lds_model *model, uint32_t step, uint32_t instruction, lds_fault *fault);

#endif /* LDS_SESSION_H */
