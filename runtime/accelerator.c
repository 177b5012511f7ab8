/* Programs of devices with an instruction table: validated by it, and relocated; and programs side by side.
 *
 * In:   a step's program in its place in a session's memory; lds_session_config.accelerators.
 * Out:  whether it may run; its addresses filled in.
 * Next: session.c and run.c. This file is linked only where lds_session_config_accelerators is called.
 *
 * All devices of a session see the memory of the session's HAL at the same bus addresses.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "recover.h"
#include "session.h"
#include "sizes.h"

/* --- devices ----------------------------------------------------------------------------------------------------------------------- */
static int same_text(const char *a, const char *b) {
  for (; *a != '\0' && *a == *b; ++a) ++b;
  return *a == *b;
}

static const lds_accelerator *find(const lds_session *s, uint32_t device) {
  uint32_t k;
  for (k = 0; k < s->config.accelerator_count; ++k) {
    if (same_text(s->config.accelerators[k].name, lds_model_device(s->model, device))) return &s->config.accelerators[k];
  }
  return NULL;
}

static int reach(const lds_session *s) {
  uint32_t k, r;
  int status = LDS_OK;
  for (k = 0; k < s->config.accelerator_count && status == LDS_OK; ++k) {
    const lds_device *device = s->config.accelerators[k].device;
    status = lds_device_reaches(device, &s->code, 1u);
    for (r = 0; r < LDS_REGIONS && status == LDS_OK; ++r) {
      if (s->region[r].flags != 0) status = lds_device_reaches(device, &s->region[r], 1u);
    }
  }
  return status;
}

/* --- tables ------------------------------------------------------------------------------------------------------------------ */
static int fits(const lds_session *s, const lds_accelerator *a, const lds_program *p) {
  const uint8_t *fingerprint = lds_model_fingerprint(s->model, p->device);
  uint32_t k;
  if (!lds_relocations_are_sound(s->model, p)) return LDS_ERR_FORMAT;
  for (k = 0; k < LDS_FINGERPRINT_BYTES; ++k) {
    if (fingerprint[k] != a->table->fingerprint[k]) return LDS_ERR_CONFIG;
  }
  return lds_device_answers(a->device, lds_model_config_hash(s->model, p->device));
}

static size_t scratch_bytes(const lds_session_config *config) {
  size_t most = 0;
  uint32_t k;
  for (k = 0; k < config->accelerator_count; ++k) {
    most = lds_size_max(most, lds_program_scratch_bytes(&config->accelerators[k]));
  }
  return most;
}

static int validate(const lds_session *s, const lds_accelerator *a, const lds_program *p, const uint8_t *code, lds_memory scratch,
                    lds_fault *fault) {
  const uint8_t *constants[LDS_REGIONS];
  lds_session_constants(s, constants);
  return lds_table_validate(s->model, p, a, code, constants, scratch, fault);
}

static int relocate(const lds_session *s, const lds_accelerator *a, const lds_program *p, uint8_t *code) {
  uint32_t k;
  (void)a;
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

/* A table says nothing of time. */
static uint64_t most_ns(const lds_session *s, const lds_program *p, const uint8_t *code) {
  (void)s;
  (void)p;
  (void)code;
  return LDS_LEAST_LIMIT_NS;
}

/* --- side by side ------------------------------------------------------------------------------------------------------------ */
/* Whether a program may start while those from s->step on run: its step is marked so, and its device is not one of theirs. */
static int may_start(const lds_session *s, uint32_t step) {
  lds_program p;
  uint32_t k;
  if (step >= s->end || lds_model_step(s->model, step).kind != LDS_STEP_PROGRAM) return 0;
  lds_program_at(s->model, step, &p);
  if (p.beside == 0) return 0;
  for (k = s->step; k < step; ++k) {
    if (lds_program_device(s, k) == lds_program_device(s, step)) return 0;
  }
  return 1;
}

static void start_beside(lds_session *s) {
  lds_device *first = s->running;
  s->next = s->step + 1u;
  while (may_start(s, s->next)) lds_submit(s, s->next++);
  s->running = first;
}

/* Whose number the device that failed has in the model: one that could not be made ready was at no instruction. */
static uint32_t number_of(const lds_session *s, const lds_device *device) {
  uint32_t k;
  for (k = 1; k < s->model->section[LDS_DEVICES].count; ++k) {
    const lds_accelerator *a = find(s, k);
    if (a != NULL && a->device == device) return k;
  }
  return 0;
}

static void stop_beside(lds_session *s) {
  uint32_t k;
  if (s->last.fault.status != LDS_OK) s->last.fault.device = number_of(s, s->running);
  for (k = s->step + 1u; k < s->next; ++k) {
    lds_device *device = lds_program_device(s, k);
    if (lds_device_recover(device) == LDS_ERR_DEAD) s->running = device;
  }
  s->next = 0;
}

/* --- for a session ----------------------------------------------------------------------------------------------------------- */
void lds_session_config_accelerators(lds_session_config *config, const lds_accelerator *accelerators, uint32_t count) {
  static const lds_further further = {find, reach, scratch_bytes, {fits, validate, relocate, most_ns}, start_beside, stop_beside};
  config->accelerators = accelerators;
  config->accelerator_count = count;
  config->further = &further;
}
