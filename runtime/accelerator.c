/* Programs of other devices than the session's own: pinned in DMA memory, validated there, bound to addresses.
 *
 * In:   a session whose regions have their places; lds_session_config.accelerators.
 * Out:  a stream for each program, jobs for their register blocks.
 * Next: run.c starts them. This file is linked only where lds_session_config_accelerators is called.
 *
 * All devices of a session see the memory of the session's HAL at the same bus addresses. A program is copied, because its addresses
 * are filled in, and validated in the copy, which nothing else writes.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"
#include "recover.h"
#include "session.h"
#include "sizes.h"
#include "vta_program.h"

static int same_text(const char *a, const char *b) {
  for (; *a != '\0' && *a == *b; ++a) ++b;
  return *a == *b;
}

static const lds_accelerator *accelerator_of(const lds_session *s, const lds_program *p) {
  uint32_t k;
  for (k = 0; k < s->config.accelerator_count; ++k) {
    if (same_text(s->config.accelerators[k].name, p->device)) return &s->config.accelerators[k];
  }
  return NULL;
}

static int is_program(const lds_session *s, uint32_t step) { return lds_model_step(s->model, step).kind == LDS_STEP_PROGRAM; }

static uint32_t steps_of(const lds_session *s) { return s->model->section[LDS_STEPS].count; }

static int same_fingerprint(const lds_model *model, const lds_program *p, const lds_insn_table *table) {
  uint32_t k;
  for (k = 0; k < LDS_FINGERPRINT_BYTES; ++k) {
    if ((lds_model_word(model, p->fingerprint + k / 4u) >> 8u * (k % 4u) & 0xFFu) != table->fingerprint[k]) return 0;
  }
  return 1;
}

static int check_one(const lds_session *s, const lds_program *p) {
  const lds_accelerator *a = accelerator_of(s, p);
  if (a == NULL) return LDS_ERR_ACCELERATOR;
  if (a->table == NULL) return lds_vta_check(s->model, p, a->device);
  if (!same_fingerprint(s->model, p, a->table)) return LDS_ERR_CONFIG;
  return lds_device_answers(a->device, lds_crc32(a->table->fingerprint, LDS_FINGERPRINT_BYTES));
}

static int check(const lds_session *s) {
  lds_program p;
  uint32_t k;
  int status = lds_programs_check(s->model);
  for (k = 0; k < steps_of(s) && status == LDS_OK; ++k) {
    if (!is_program(s, k)) continue;
    lds_program_at(s->model, k, &p);
    status = check_one(s, &p);
  }
  return status;
}

/* --- streams ----------------------------------------------------------------------------------------------------------------- */
static int relocate(const lds_session *s, const lds_program *p, uint8_t *code) {
  uint32_t k;
  for (k = 0; k < p->relocation_count; ++k) {
    lds_relocation r;
    uint64_t address;
    lds_program_relocation(s->model, p, k, &r);
    address = s->region[r.region].bus + r.addend;
    if ((address & (((uint64_t)1 << r.shift) - 1u)) != 0) return LDS_ERR_ADDRESS;
    address >>= r.shift;
    if (r.width < 64u && address >> r.width != 0) return LDS_ERR_ADDRESS;
    lds_put_bits(code + r.at, r.bit, r.width, address);
  }
  return LDS_OK;
}

/* What validators need: of the words that instructions reach through, and of a further VTA. */
static size_t scratch_bytes(const lds_model *model, const lds_session_config *config) {
  size_t most = lds_vta_scratch_bytes(model);
  uint32_t k;
  for (k = 0; k < config->accelerator_count; ++k) {
    most = lds_size_max(most, lds_program_scratch_bytes(&config->accelerators[k]));
  }
  return most;
}

static int validate(const lds_session *s, uint32_t step, const lds_accelerator *a, const uint8_t *code, lds_memory scratch,
                    lds_fault *fault) {
  const uint8_t *constants[LDS_REGIONS];
  uint32_t r;
  if (s->config.validate == NULL) return LDS_OK;
  for (r = 0; r < LDS_REGIONS; ++r) {
    const int constant = r < s->model->section[LDS_REGION_TABLE].count && lds_model_region(s->model, r).kind == LDS_REGION_CONSTANTS;
    constants[r] = constant ? s->region[r].cpu : NULL;
  }
  return lds_program_validate(s->model, step, a, code, constants, scratch.at, scratch.left, fault);
}

static int open_program(const lds_session *s, uint32_t step, lds_memory scratch, lds_fault *fault) {
  lds_program p;
  const lds_accelerator *a;
  uint8_t *code;
  int status;
  lds_program_at(s->model, step, &p);
  a = accelerator_of(s, &p);
  code = (uint8_t *)s->code.cpu + p.code.offset_bytes;
  fault->step = step;
  if (a->table == NULL) {
    status = lds_vta_open(s, &p, a->device, code, scratch, fault);
  } else {
    status = validate(s, step, a, code, scratch, fault);
    if (status == LDS_OK) status = relocate(s, &p, code);
  }
  if (status == LDS_OK) memset(fault, 0, sizeof *fault);
  return status;
}

static int open_programs(lds_session *s, lds_memory scratch, lds_fault *fault) {
  const lds_hal *hal = s->device->hal;
  lds_program p;
  lds_region region;
  size_t size_bytes;
  uint32_t first = 0, k;
  while (first < steps_of(s) && !is_program(s, first)) ++first;
  if (first == steps_of(s)) return LDS_OK;
  lds_program_at(s->model, first, &p);
  region = lds_model_region(s->model, p.code.region);
  size_bytes = region.size_bytes; /* no more than the file has */
  if (hal->dma_alloc(hal->ctx, size_bytes, LDS_CODE_ALIGN, LDS_DMA_DEVICE_READS, &s->code) != LDS_HAL_OK) return LDS_ERR_MEMORY;
  s->code.size_bytes = size_bytes;
  s->code.flags = LDS_DMA_DEVICE_READS;
  s->owned |= 1u << (LDS_REGIONS + 1);
  memcpy(s->code.cpu, s->model->section[LDS_DATA].bytes + region.data_offset, size_bytes);
  for (k = first; k < steps_of(s); ++k) {
    const int status = is_program(s, k) ? open_program(s, k, scratch, fault) : LDS_OK;
    if (status != LDS_OK) return status;
  }
  if (hal->dma_sync == NULL) return LDS_OK;
  return hal->dma_sync(hal->ctx, &s->code, 0, size_bytes, LDS_DMA_TO_DEVICE) == LDS_HAL_OK ? LDS_OK : LDS_ERR_HAL;
}

static lds_device *job_of(const lds_session *s, uint32_t step, lds_job *job) {
  lds_program p;
  lds_program_at(s->model, step, &p);
  job->insn_bus = s->code.bus + p.code.offset_bytes;
  job->insn_count = p.instructions;
  job->insn_cpu = (const uint8_t *)s->code.cpu + p.code.offset_bytes;
  job->insn_bytes = p.code.size_bytes;
  return accelerator_of(s, &p)->device;
}

/* --- side by side ------------------------------------------------------------------------------------------------------------ */
static lds_device *device_of(const lds_session *s, uint32_t step) {
  lds_program p;
  if (!is_program(s, step)) return s->device;
  lds_program_at(s->model, step, &p);
  return accelerator_of(s, &p)->device;
}

/* Whether a program may start while those from s->step on run: its step is marked so, and its device is not one of theirs. */
static int may_start(const lds_session *s, uint32_t step) {
  lds_program p;
  uint32_t k;
  if (step >= steps_of(s) || !is_program(s, step)) return 0;
  lds_program_at(s->model, step, &p);
  if (p.beside == 0) return 0;
  for (k = s->step; k < step; ++k) {
    if (device_of(s, k) == device_of(s, step)) return 0;
  }
  return 1;
}

static void start_beside(lds_session *s) {
  lds_device *first = s->running;
  s->next = s->step + 1u;
  while (may_start(s, s->next)) lds_submit(s, s->next++);
  s->running = first;
}

static void stop_beside(lds_session *s) {
  uint32_t k;
  for (k = s->step + 1u; k < s->next; ++k) {
    lds_device *device = device_of(s, k);
    if (lds_device_recover(device) == LDS_ERR_DEAD) s->running = device;
  }
  s->next = 0;
}

static const char *layer_of(const lds_model *model, uint32_t step, uint32_t instruction) {
  lds_program p;
  lds_program_at(model, step, &p);
  return lds_program_layer(model, &p, instruction);
}

/* --- for a session ----------------------------------------------------------------------------------------------------------- */
void lds_session_config_accelerators(lds_session_config *config, const lds_accelerator *accelerators, uint32_t count) {
  static const lds_program_set programs = {check, scratch_bytes, open_programs, job_of, device_of, start_beside, stop_beside, layer_of};
  config->accelerators = accelerators;
  config->accelerator_count = count;
  config->programs = &programs;
}
