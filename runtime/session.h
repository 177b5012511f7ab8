/* The state of a session. Private to runtime/.
 *
 * In:   session.c fills it.
 * Out:  the struct, and where a region's memory is.
 * Next: run.c executes it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_SESSION_H
#define LDS_SESSION_H

#include "format.h"
#include "sizes.h"

typedef enum { LDS_IDLE, LDS_RUNNING, LDS_FINISHED } lds_phase;

struct lds_session {
  const lds_model *model;
  lds_device *device;
  lds_session_config config;
  lds_dma_buffer region[LDS_REGIONS]; /* .cpu: where the host sees it; .flags 0: the host's own memory */
  lds_dma_buffer stream;              /* the pinned instructions */
  lds_dma_buffer code;                /* programs of accelerators, one after the other */
  lds_device *running;                /* the device that is waited for, or worked last */
  uint32_t owned;                     /* bit r: region r must be freed; bit LDS_REGIONS: the stream; the next bit: code */
  void (*move)(const lds_session *s, lds_operand *operand); /* to memory of the caller's: bind.c, where it is linked in */
  const lds_binding *bound;
  uint32_t bound_count;
  uint32_t to_fill; /* bit r: region r needs its constants or zeros */
  lds_phase phase;
  uint32_t step; /* the step that is being executed */
  uint32_t next; /* the first step after those in flight, which begin at `step` */
  uint32_t progress;
  uint64_t progress_ns; /* when the device last moved */
  uint64_t started_ns;  /* when it was first waited for */
  uint64_t limit_ns;    /* after this time without progress the device hangs; preliminary until `extended` is set */
  int extended;
  lds_counters counters;
  lds_fault fault;
};

/* Programs of other devices: accelerator.c, where lds_session_config_accelerators links it in. */
typedef struct lds_program_set {
  /* Checks that every program has a valid record, and that its device is present. */
  int (*check)(const lds_session *session);
  /* Bytes of the caller's memory that `open` needs. */
  size_t (*scratch_bytes)(const lds_model *model, const lds_session_config *config);
  /* Pins the programs, validates and relocates them. s->code is theirs; the caller frees it. */
  int (*open)(lds_session *session, lds_memory scratch, lds_fault *fault);
  /* Fills in the job of a step's program; returns the device that executes it. */
  lds_device *(*job)(const lds_session *session, uint32_t step, lds_job *job);
  /* The device that executes the program of a step. */
  lds_device *(*device)(const lds_session *session, uint32_t step);
  /* Starts the programs that may run concurrently with the one just started; session->next is the step after the last of them. */
  void (*start)(lds_session *session);
  /* Stops the programs in flight, except the one that is waited for. A device that cannot be stopped becomes session->running. */
  void (*stop)(lds_session *session);
  const char *(*layer)(const lds_model *model, uint32_t step, uint32_t instruction);
} lds_program_set;

/* Synchronizes one tensor's memory between host and device, after one of them wrote it. */
int lds_session_sync(lds_session *session, const lds_tensor *tensor, int direction);
/* Whether a model was compiled for this device, and the device is present. */
int lds_device_fits(lds_device *device, const lds_model *model);
/* Whether the device is present, has this CONFIG_HASH, and executes no program but those of this process. */
int lds_device_answers(lds_device *device, uint32_t config_hash);
/* Whether a device can address all of a buffer, and its bus address is a multiple of align_bytes. */
int lds_device_reaches(const lds_device *device, const lds_dma_buffer *buffer, uint32_t align_bytes);
/* For devices without regions: absolute tile numbers instead of those within a region. model: with the device's fingerprint. */
int lds_stream_resolve(const lds_session *session, const lds_model *model, uint8_t *stream, uint32_t count);
/* The operands and parameters of a host step; returns their number. */
uint32_t lds_session_operands(lds_session *session, const lds_step *step, lds_operand *operands, int32_t *parameters);
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
