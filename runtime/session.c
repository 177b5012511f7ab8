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
#include "recover.h"
#include "sizes.h"

enum { STREAM_ALIGN = 64, SESSION_ALIGN = 16 };

static int has_step(const lds_model *model, uint32_t kind) {
  uint32_t k;
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    if (lds_model_step(model, k).kind == kind) return 1;
  }
  return 0;
}

static int has_program(const lds_model *model) { return has_step(model, LDS_STEP_DEVICE); }

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
  if (config->validate != NULL && has_program(model)) scratch = lds_size_with(0, SESSION_ALIGN, lds_validate_scratch_bytes(model));
  if (config->validate != NULL && config->programs != NULL)
    scratch = lds_size_max(scratch, lds_size_with(0, SESSION_ALIGN, config->programs->scratch_bytes(model, config)));
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

/* --- instructions ------------------------------------------------------------------------------------------------------------ */
void lds_fault_at(const lds_model *model, uint32_t step, uint32_t instruction, lds_fault *fault) {
  const uint32_t at = lds_model_step(model, step).first + instruction;
  uint32_t k;
  fault->step = step;
  fault->instruction = instruction;
  fault->layer = "";
  if (lds_model_step(model, step).kind != LDS_STEP_DEVICE) return;
  for (k = 0; k < model->section[LDS_SOURCE_MAP].count; ++k) {
    const uint8_t *p = model->section[LDS_SOURCE_MAP].bytes + 16u * k;
    if (at - lds_u32(p) < lds_u32(p + 4)) fault->layer = (const char *)(model->section[LDS_STRINGS].bytes + lds_u32(p + 8));
  }
}

static int validate_all(const lds_model *model, lds_validator validate, const uint8_t *stream, const uint8_t *const *constants,
                        void *scratch, lds_fault *fault) {
  uint32_t k;
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    const lds_step step = lds_model_step(model, k);
    int status;
    if (step.kind != LDS_STEP_DEVICE) continue;
    status = validate(model, stream + (size_t)step.first * LDS_INSN_BYTES, step.count, constants, scratch, fault);
    if (status != LDS_OK) {
      fault->status = status;
      lds_fault_at(model, k, fault->instruction, fault);
      return status;
    }
  }
  return LDS_OK;
}

int lds_model_validate(const lds_model *model, void *scratch, size_t scratch_bytes, lds_fault *fault) {
  const uint8_t *constants[LDS_REGIONS] = {NULL};
  lds_fault ignored;
  uint32_t r;
  if (model == NULL || scratch == NULL || scratch_bytes < lds_validate_scratch_bytes(model)) return LDS_ERR_ARGUMENT;
  fault = fault != NULL ? fault : &ignored;
  memset(fault, 0, sizeof *fault);
  for (r = 0; r < model->section[LDS_REGION_TABLE].count; ++r) {
    const lds_region region = lds_model_region(model, r);
    if (region.kind == LDS_REGION_CONSTANTS) constants[r] = model->section[LDS_DATA].bytes + region.data_offset;
  }
  return validate_all(model, lds_validate, model->section[LDS_INSTRUCTIONS].bytes, constants, scratch, fault);
}

/* Works on 32-bit words, for small processors: the tile number spans both words, and the region follows it. */
static int resolve(const lds_session *s, const lds_hw_config *c, uint8_t *bytes) {
  enum { AT = LDS_BIT_MEMORY_DRAM_BASE, REGION_AT = LDS_BIT_MEMORY_REGION - 32 };
  uint32_t low = lds_u32(bytes), high = lds_u32(bytes + 4), k;
  const uint32_t opcode = low & 7u, log_bytes = lds_log_tile_bytes(c, low >> LDS_BIT_MEMORY_MEMORY_ID & 7u);
  const uint64_t bus = s->region[high >> REGION_AT & 7u].bus, tile = (bus >> log_bytes) + (low >> AT | high << (32 - AT));
  const uint8_t *x_size = bytes + LDS_BIT_MEMORY_X_SIZE / 8u;
  if (opcode != LDS_OPCODE_LOAD && opcode != LDS_OPCODE_STORE) return LDS_OK;
  if ((x_size[0] | x_size[1]) == 0) return LDS_OK; /* a no-op is zeros */
  if (((uint32_t)bus & (((uint32_t)1 << log_bytes) - 1u)) != 0 || tile > UINT32_MAX) return LDS_ERR_ADDRESS;
  low = (low & (((uint32_t)1 << AT) - 1u)) | (uint32_t)tile << AT;
  high = (high >> (REGION_AT + 3) << (REGION_AT + 3)) | (uint32_t)tile >> (32 - AT);
  for (k = 0; k < 8u; ++k) {
    bytes[k] = (uint8_t)low;
    low = low >> 8 | high << 24;
    high >>= 8;
  }
  return LDS_OK;
}

int lds_stream_resolve(const lds_session *s, const lds_model *model, uint8_t *stream, uint32_t count) {
  const lds_hw_config c = lds_config_of(model);
  int status = LDS_OK;
  uint32_t k;
  if ((c.capabilities & LDS_CAP_REGIONS) != 0) return LDS_OK;
  for (k = 0; k < count && status == LDS_OK; ++k) status = resolve(s, &c, stream + (size_t)k * LDS_INSN_BYTES);
  return status;
}

/* Assigns memory to the stream: a copy that nothing else writes, or the file itself. */
static int pin_stream(lds_session *s, int in_place) {
  const lds_table insns = s->model->section[LDS_INSTRUCTIONS];
  const size_t size_bytes = (size_t)insns.count * LDS_INSN_BYTES; /* no more than the file has */
  if (in_place) {
    s->stream.cpu = (void *)(uintptr_t)insns.bytes;
    s->stream.bus = s->config.model_bus + (size_t)(insns.bytes - s->model->bytes);
    s->stream.size_bytes = size_bytes;
    s->stream.flags = 0;
  } else {
    const int status = allocate(s, size_bytes, STREAM_ALIGN, LDS_DMA_DEVICE_READS, &s->stream);
    if (status != LDS_OK) return status;
    s->owned |= 1u << LDS_REGIONS;
    memcpy(s->stream.cpu, insns.bytes, size_bytes);
  }
  return lds_device_reaches(s->device, &s->stream, LDS_INSN_BYTES);
}

/* Pins the stream, validates it, resolves its regions, and makes it visible to the device. */
static int open_stream(lds_session *s, lds_memory memory, lds_fault *fault) {
  const lds_table insns = s->model->section[LDS_INSTRUCTIONS];
  const int regions = (lds_config_of(s->model).capabilities & LDS_CAP_REGIONS) != 0;
  const uint8_t *constants[LDS_REGIONS];
  uint8_t *scratch;
  int status;
  uint32_t k;
  if (!has_program(s->model)) return LDS_OK;
  status = pin_stream(s, regions && s->config.model_bus != LDS_NOT_IN_PLACE && (s->config.model_bus & 15u) == 0);
  for (k = 0; k < LDS_REGIONS; ++k) constants[k] = s->region[k].cpu;
  if (s->config.validate != NULL && status == LDS_OK) {
    scratch = lds_piece(&memory, lds_validate_scratch_bytes(s->model), SESSION_ALIGN);
    status = scratch != NULL ? validate_all(s->model, s->config.validate, s->stream.cpu, constants, scratch, fault) : LDS_ERR_MEMORY;
  }
  if (status == LDS_OK) status = lds_stream_resolve(s, s->model, s->stream.cpu, insns.count);
  return status == LDS_OK && s->stream.flags != 0 ? sync_all(s, &s->stream, LDS_DMA_TO_DEVICE) : status;
}

/* --- devices ----------------------------------------------------------------------------------------------------------------- */
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
  if (s->config.programs != NULL) s->config.programs->stop(s);
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

int lds_device_fits(lds_device *device, const lds_model *model) {
  const int regions = (lds_config_of(model).capabilities & LDS_CAP_REGIONS) != 0;
  if (device->config_hash != 0 && device->config_hash != model->config_hash) return LDS_ERR_CONFIG;
  if (regions && (device->registers->flags & LDS_BLOCK_REGIONS) == 0) return LDS_ERR_CONFIG;
  return lds_device_answers(device, model->config_hash);
}

/* Where other devices execute all programs, the session's own device only provides its memory. */
static int check_device(const lds_model *model, lds_device *device) {
  return has_step(model, LDS_STEP_PROGRAM) && !has_program(model) ? LDS_OK : lds_device_fits(device, model);
}

/* Checks rules R19 to R21, and that every host step has a function that executes it. */
static int check_operators(const lds_model *model, const lds_session_config *config) {
  uint32_t k;
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    const uint32_t kind = lds_model_step(model, k).kind;
    if (kind == LDS_STEP_PROGRAM && config->programs == NULL) return LDS_ERR_ACCELERATOR;
    if (kind == LDS_STEP_DEVICE || kind == LDS_STEP_PROGRAM) continue;
    if (config->operators == NULL || config->operators->check(model, k) != LDS_OK) return LDS_ERR_OPERATOR;
    if (kind != LDS_STEP_EXTERNAL && config->operators->run[kind] == NULL) return LDS_ERR_OPERATOR; /* not linked in */
    if (kind == LDS_STEP_EXTERNAL && config->external == NULL) return LDS_ERR_EXTERNAL;
  }
  return LDS_OK;
}

static int open_all(lds_session *s, lds_memory memory, lds_fault *fault) {
  const lds_program_set *programs = s->config.programs;
  int status = check_device(s->model, s->device);
  uint32_t r;
  if (status == LDS_OK) status = check_operators(s->model, &s->config);
  if (status == LDS_OK && programs != NULL) status = programs->check(s);
  if (status == LDS_OK) status = open_regions(s, memory);
  for (r = 0; r < s->model->section[LDS_REGION_TABLE].count && status == LDS_OK; ++r) {
    if (s->region[r].flags != 0) status = fill_region(s, r);
  }
  if (status == LDS_OK) status = open_stream(s, memory, fault); /* ordinary regions are not filled yet: they are its scratch */
  if (status == LDS_OK && programs != NULL) status = programs->open(s, memory, fault);
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
  s->device = s->running = device;
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
  if ((s->owned >> LDS_REGIONS & 1u) != 0 && s->running->dead == 0) hal->dma_free(hal->ctx, &s->stream);
  if ((s->owned >> (LDS_REGIONS + 1) & 1u) != 0 && s->running->dead == 0) hal->dma_free(hal->ctx, &s->code);
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
