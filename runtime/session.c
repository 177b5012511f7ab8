/* Open a session: memory for every region, constants and instructions copied, instructions validated and bound to addresses.
 *
 * In:   an opened model, a device, memory of the caller's.
 * Out:  a session that can run.
 * Next: operands.c reads and writes its tensors, run.c executes the steps.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "claim.h"
#include "geometry.h"
#include "program.h"
#include "recover.h"
#include "sizes.h"

enum { SESSION_ALIGN = 16 };

static int is_program(const lds_model *model, uint32_t step) { return lds_model_step(model, step).kind == LDS_STEP_PROGRAM; }

/* --- how much of the caller's memory ----------------------------------------------------------------------------------------- */
/* Regions in ordinary memory: not seen by the device, not constants (those stay in the file), not the caller's own. */
static int in_host_memory(const lds_region *r, const lds_dma_buffer *own) {
  return r->flags == 0 && r->kind != LDS_REGION_CONSTANTS && own->cpu == NULL;
}

size_t lds_session_size_bytes(const lds_model *model, const lds_session_config *config) {
  size_t regions = 0, scratch = 0;
  uint32_t r;
  if (model == NULL || config == NULL) return 0;
  for (r = 0; r < model->section[LDS_REGION_TABLE].count; ++r) {
    const lds_region region = lds_model_region(model, r);
    if (in_host_memory(&region, &config->region[r])) regions = lds_size_with(regions, region.align_bytes, region.size_bytes);
  }
  if (config->validate != NULL) scratch = lds_size_with(0, SESSION_ALIGN, config->validate->scratch_bytes(model));
  if (config->validate != NULL && config->further != NULL)
    scratch = lds_size_max(scratch, lds_size_with(0, SESSION_ALIGN, config->further->scratch_bytes(config)));
  return lds_size_sum(lds_size_with(0, SESSION_ALIGN, sizeof(lds_session)), lds_size_max(regions, scratch));
}

/* --- regions ----------------------------------------------------------------------------------------------------------------- */
static int sync_all(lds_session *s, const lds_dma_buffer *b, int direction) {
  const lds_hal *hal = s->device->hal;
  if (hal->dma_sync == NULL) return LDS_OK;
  return hal->dma_sync(hal->ctx, b, 0, b->size_bytes, direction) == LDS_HAL_OK ? LDS_OK : LDS_ERR_HAL;
}

static int allocate(lds_session *s, size_t size_bytes, size_t align_bytes, uint32_t flags, lds_dma_buffer *out) {
  const lds_hal *hal = s->device->hal;
  if (hal->dma_alloc(hal->ctx, size_bytes, align_bytes, flags, out) != LDS_HAL_OK) return LDS_ERR_MEMORY;
  out->size_bytes = size_bytes;
  out->flags = flags;
  return LDS_OK;
}

/* Constants stay in the file when only the host reads them, or when the device can read the file. */
static int in_place(const lds_session *s, const lds_region *region, uint64_t bus) {
  if (region->kind != LDS_REGION_CONSTANTS) return 0;
  return region->flags == 0 || (s->config.model_bus != LDS_NOT_IN_PLACE && (bus & (region->align_bytes - 1u)) == 0);
}

int lds_device_reaches(const lds_device *device, const lds_dma_buffer *b, uint32_t align_bytes) {
  const uint64_t last = (device->registers->flags & LDS_BLOCK_BUS_32) != 0 ? UINT32_MAX : UINT64_MAX;
  return (b->bus & (align_bytes - 1u)) == 0 && lds_bus_inside(b->bus, b->size_bytes, last) ? LDS_OK : LDS_ERR_ADDRESS;
}

/* Assigns memory to region r; *memory is the unused rest of the caller's. */
static int open_region(lds_session *s, uint32_t r, lds_memory *memory) {
  const lds_region region = lds_model_region(s->model, r);
  const uint8_t *data = s->model->section[LDS_DATA].bytes + region.data_offset;
  const uint64_t bus = s->config.model_bus + (size_t)(data - s->model->bytes);
  lds_dma_buffer *b = &s->region[r];
  *b = s->config.region[r];
  if (b->cpu != NULL) {
    if (b->size_bytes < region.size_bytes) return LDS_ERR_ARGUMENT;
    s->to_fill |= 1u << r;
  } else if (in_place(s, &region, bus)) {
    b->cpu = (void *)(uintptr_t)data;
    b->bus = bus;
  } else if (region.flags != 0) {
    const int status = allocate(s, region.size_bytes, region.align_bytes, region.flags, b);
    if (status != LDS_OK) return status;
    s->owned |= 1u << r;
    s->to_fill |= 1u << r;
  } else {
    b->cpu = lds_piece(memory, region.size_bytes, region.align_bytes);
    if (b->cpu == NULL) return LDS_ERR_MEMORY;
    s->to_fill |= 1u << r;
  }
  b->size_bytes = region.size_bytes;
  b->flags = region.flags;
  return region.flags != 0 ? lds_device_reaches(s->device, b, region.align_bytes) : LDS_OK;
}

/* Fills a region from the file (constants, initial values of states) or with zeros, before the session first reads it. */
static int fill_region(lds_session *s, uint32_t r) {
  const lds_region region = lds_model_region(s->model, r);
  lds_dma_buffer *b = &s->region[r];
  if ((s->to_fill >> r & 1u) == 0) return LDS_OK;
  if (region.data_size_bytes != 0) {
    memcpy(b->cpu, s->model->section[LDS_DATA].bytes + region.data_offset, b->size_bytes);
  } else {
    memset(b->cpu, 0, b->size_bytes);
  }
  return b->flags != 0 ? sync_all(s, b, LDS_DMA_TO_DEVICE) : LDS_OK;
}

static int open_regions(lds_session *s, lds_memory memory) {
  uint32_t r;
  for (r = 0; r < s->model->section[LDS_REGION_TABLE].count; ++r) {
    const int status = open_region(s, r, &memory);
    if (status != LDS_OK) return status;
  }
  return LDS_OK;
}

/* --- programs ---------------------------------------------------------------------------------------------------------------- */
void lds_fault_at(const lds_model *model, uint32_t step, uint32_t instruction, lds_fault *fault) {
  fault->step = step;
  fault->instruction = instruction;
  fault->layer = "";
  fault->device = 0;
  if (is_program(model, step)) {
    lds_program p;
    lds_program_at(model, step, &p);
    fault->device = p.device;
    fault->layer = lds_program_layer(model, &p, instruction);
  }
}

const lds_program_kind *lds_accelerator_kind(const lds_session *s, const lds_accelerator *a) {
  return a->table != NULL ? &s->config.further->tables : &lds_vta_programs;
}

/* Assigns memory to the programs: a copy that nothing else writes, or the file itself, where all programs run as they are. */
static int pin_code(lds_session *s) {
  const lds_table code = s->model->section[LDS_CODE];
  if (!s->writes_code && s->config.model_bus != LDS_NOT_IN_PLACE && (s->config.model_bus & (LDS_INSN_BYTES - 1u)) == 0) {
    s->code.cpu = (void *)(uintptr_t)code.bytes;
    s->code.bus = s->config.model_bus + (size_t)(code.bytes - s->model->bytes);
    s->code.size_bytes = code.count;
    s->code.flags = 0;
  } else {
    const int status = allocate(s, code.count, LDS_CODE_ALIGN, LDS_DMA_DEVICE_READS, &s->code);
    if (status != LDS_OK) return status;
    s->owned |= 1u << LDS_REGIONS;
    memcpy(s->code.cpu, code.bytes, code.count);
  }
  if (s->config.further != NULL && s->config.further->reach(s) != LDS_OK) return LDS_ERR_ADDRESS;
  return lds_device_reaches(s->device, &s->code, LDS_INSN_BYTES);
}

/* Validates a program in its place, and binds it to addresses. */
static int open_program(const lds_session *s, uint32_t step, lds_memory scratch, lds_fault *fault) {
  const lds_accelerator *a;
  lds_program p;
  uint8_t *code;
  int status = LDS_OK;
  lds_program_at(s->model, step, &p);
  a = lds_session_accelerator(s, p.device);
  code = (uint8_t *)s->code.cpu + p.offset_bytes;
  if (s->config.validate != NULL) status = lds_accelerator_kind(s, a)->validate(s, a, &p, code, scratch, fault);
  if (status != LDS_OK) lds_fault_at(s->model, step, fault->instruction, fault);
  return status == LDS_OK ? lds_accelerator_kind(s, a)->bind(s, a, &p, code) : status;
}

static int open_programs(lds_session *s, lds_memory scratch, lds_fault *fault) {
  uint32_t k;
  int status = LDS_OK;
  for (k = 0; k < s->model->section[LDS_STEPS].count && status == LDS_OK; ++k) {
    if (!is_program(s->model, k)) continue;
    if (s->code.cpu == NULL) status = pin_code(s);
    if (status == LDS_OK) status = open_program(s, k, scratch, fault);
  }
  return status == LDS_OK && s->code.flags != 0 ? sync_all(s, &s->code, LDS_DMA_TO_DEVICE) : status;
}

lds_device *lds_program_device(const lds_session *s, uint32_t step) {
  lds_program p;
  lds_program_at(s->model, step, &p);
  return lds_session_accelerator(s, p.device)->device;
}

/* --- devices ----------------------------------------------------------------------------------------------------------------- */
const lds_accelerator *lds_session_accelerator(const lds_session *s, uint32_t device) {
  if (device == 0) return &s->own;
  return s->config.further != NULL ? s->config.further->find(s, device) : NULL;
}

lds_device *lds_session_device(const lds_session *s, uint32_t index) {
  if (index == 0) return s->device;
  return index <= s->config.accelerator_count ? s->config.accelerators[index - 1u].device : NULL;
}

void lds_session_release(const lds_session *s, uint32_t count) {
  uint32_t k;
  for (k = 0; k < count; ++k) {
    lds_device *device = lds_session_device(s, k);
    if (device != NULL) lds_release(&device->claimed);
  }
}

void lds_devices_release(lds_session *s) {
  if (s->config.further != NULL) s->config.further->stop(s);
  lds_session_release(s, s->config.accelerator_count + 1u);
}

/* --- open and close ---------------------------------------------------------------------------------------------------------- */
int lds_device_open(lds_device *device, const lds_hal *hal, const lds_register_block *registers, uint32_t config_hash) {
  if (device == NULL || hal == NULL || registers == NULL) return LDS_ERR_ARGUMENT;
  if (hal->abi_version != LDS_HAL_ABI_VERSION || hal->read32 == NULL || hal->write32 == NULL) return LDS_ERR_HAL;
  if (hal->dma_alloc == NULL || hal->dma_free == NULL || hal->now_ns == NULL) return LDS_ERR_HAL;
  device->hal = hal;
  device->registers = registers;
  device->config_hash = config_hash;
  device->seen = 0;
  device->dead = 0;
  device->claimed = 0;
  return LDS_OK;
}

int lds_device_answers(lds_device *device, uint32_t config_hash) {
  switch (device->registers->identify(device->hal, config_hash)) {
    case LDS_HAL_OK:
      return device->claimed == 0 ? lds_device_rest(device) : LDS_OK;
    case LDS_HAL_UNSUPPORTED:
      return LDS_ERR_ABSENT;
    default:
      return LDS_ERR_CONFIG;
  }
}

static int check_program(lds_session *s, uint32_t step) {
  const lds_accelerator *a;
  lds_program p;
  lds_program_at(s->model, step, &p);
  s->writes_code |= !lds_has_regions(s->model, p.device);
  a = lds_session_accelerator(s, p.device);
  return a != NULL ? lds_accelerator_kind(s, a)->fits(s, a, &p) : LDS_ERR_ACCELERATOR;
}

/* Checks rules R19 to R21, and that the host step has a function that executes it. */
static int check_operator(const lds_session *s, uint32_t step, uint32_t kind) {
  const lds_session_config *config = &s->config;
  if (config->operators == NULL || config->operators->check(s->model, step) != LDS_OK) return LDS_ERR_OPERATOR;
  if (kind == LDS_STEP_EXTERNAL) return config->external != NULL ? LDS_OK : LDS_ERR_EXTERNAL;
  return config->operators->run[kind] != NULL ? LDS_OK : LDS_ERR_OPERATOR; /* not linked in */
}

/* Every program has its device, and every host step its function. Where other devices execute all programs, device 0 only provides its
 * memory; where there are no programs, it must be that of the model all the same. */
static int check_steps(lds_session *s) {
  static const lds_program none; /* of device 0 */
  uint32_t programs = 0, k;
  int status = LDS_OK;
  for (k = 0; k < s->model->section[LDS_STEPS].count && status == LDS_OK; ++k) {
    const uint32_t kind = lds_model_step(s->model, k).kind;
    programs += kind == LDS_STEP_PROGRAM;
    status = kind == LDS_STEP_PROGRAM ? check_program(s, k) : check_operator(s, k, kind);
  }
  return status == LDS_OK && programs == 0 ? lds_vta_programs.fits(s, &s->own, &none) : status;
}

static int open_all(lds_session *s, lds_memory memory, lds_fault *fault) {
  int status = check_steps(s);
  uint32_t r;
  if (status == LDS_OK) status = open_regions(s, memory);
  for (r = 0; r < s->model->section[LDS_REGION_TABLE].count && status == LDS_OK; ++r) {
    if (s->region[r].flags != 0) status = fill_region(s, r);
  }
  if (status == LDS_OK) status = open_programs(s, memory, fault); /* ordinary regions are not filled yet: they are its scratch */
  for (r = 0; r < s->model->section[LDS_REGION_TABLE].count && status == LDS_OK; ++r) {
    if (s->region[r].flags == 0) status = fill_region(s, r);
  }
  return status;
}

/* Whether an earlier session has validated this file, and the caller accepts that validation. */
static int is_validated(const lds_model *model, const lds_validated *last) {
  return last != NULL && last->size_bytes == model->size_bytes && last->checksum == lds_u32(model->bytes + LDS_CHECKSUM_AT);
}

static void remember(const lds_model *model, lds_validated *last) {
  if (last == NULL) return;
  last->checksum = lds_u32(model->bytes + LDS_CHECKSUM_AT);
  last->size_bytes = model->size_bytes;
}

int lds_session_open(lds_session **session, const lds_model *model, lds_device *device, const lds_session_config *config, void *memory,
                     size_t memory_bytes, lds_fault *fault) {
  lds_fault ignored;
  lds_memory left;
  lds_session *s;
  size_t needed;
  int status;
  if (session == NULL || model == NULL || device == NULL || config == NULL || memory == NULL) return LDS_ERR_ARGUMENT;
  *session = NULL;
  fault = fault != NULL ? fault : &ignored;
  memset(fault, 0, sizeof *fault);
  needed = lds_session_size_bytes(model, config);
  left.at = memory;
  left.left = memory_bytes;
  if (needed == SIZE_MAX || memory_bytes < needed) return LDS_ERR_MEMORY;
  s = (void *)lds_piece(&left, sizeof *s, SESSION_ALIGN);
  if (s == NULL) return LDS_ERR_MEMORY;
  memset(s, 0, sizeof *s);
  s->model = model;
  s->device = s->running = s->own.device = device;
  s->config = *config;
  if (is_validated(model, config->validated)) s->config.validate = NULL;
  status = open_all(s, left, fault);
  fault->status = status;
  if (status == LDS_OK) {
    if (config->validate != NULL) remember(model, config->validated);
    *session = s;
  } else {
    lds_session_close(s);
  }
  return status;
}

/* Stops the device before its memory is freed, and then releases it; the memory of a device that cannot be stopped is kept. */
void lds_session_close(lds_session *s) {
  const lds_hal *hal;
  int running;
  uint32_t r;
  if (s == NULL) return;
  hal = s->device->hal;
  running = s->phase == LDS_RUNNING;
  if (running) {
    (void)lds_device_recover(s->running);
    lds_devices_release(s);
  }
  s->phase = LDS_IDLE;
  for (r = 0; r < LDS_REGIONS && s->running->dead == 0; ++r) {
    if ((s->owned >> r & 1u) != 0) hal->dma_free(hal->ctx, &s->region[r]);
  }
  if ((s->owned >> LDS_REGIONS & 1u) != 0 && s->running->dead == 0) hal->dma_free(hal->ctx, &s->code);
  if (s->running->dead == 0) s->owned = 0;
}

int lds_session_reset(lds_session *s) {
  int status = LDS_OK;
  uint32_t r;
  if (s == NULL) return LDS_ERR_ARGUMENT;
  if (s->phase == LDS_RUNNING) return LDS_ERR_STATE;
  for (r = 0; r < s->model->section[LDS_REGION_TABLE].count && status == LDS_OK; ++r) {
    if (lds_model_region(s->model, r).kind == LDS_REGION_STATE) status = fill_region(s, r);
  }
  return status;
}
