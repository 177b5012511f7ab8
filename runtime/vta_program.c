/* Programs of a further VTA: the same instructions as the session's own, of another configuration.
 *
 * In:   the record of a program, with the device's configuration in its fingerprint.
 * Out:  LDS_OK, or why it may not run.
 * Next: accelerator.c.
 *
 * Validator and binding to addresses are those of the session's own stream: they see the model with the other fingerprint.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "vta_program.h"

#include "geometry.h"
#include "sizes.h"

enum { SCRATCH_ALIGN = 16 };

/* The model as if this device were its own. */
static lds_model model_for(const lds_model *model, const lds_program *p) {
  lds_model m = *model;
  m.fingerprint = model->section[LDS_WORDS].bytes + 4u * p->fingerprint;
  m.config_hash = lds_crc32(m.fingerprint, LDS_VTA_FINGERPRINT_BYTES);
  return m;
}

size_t lds_vta_scratch_bytes(const lds_model *model) {
  size_t most = 0;
  uint32_t k;
  if (lds_programs_check(model) != LDS_OK) return 0; /* no session opens, whatever memory it gets */
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    lds_program p;
    if (lds_model_step(model, k).kind != LDS_STEP_PROGRAM) continue;
    lds_program_at(model, k, &p);
    if (lds_program_is_vta(model, &p)) {
      const lds_model m = model_for(model, &p);
      most = lds_size_max(most, lds_validate_scratch_bytes(&m));
    }
  }
  return most;
}

int lds_vta_check(const lds_model *model, const lds_program *p, lds_device *device) {
  const lds_model m = model_for(model, p);
  return lds_program_is_vta(model, p) ? lds_device_fits(device, &m) : LDS_ERR_CONFIG;
}

int lds_vta_open(const lds_session *s, const lds_program *p, const lds_device *device, uint8_t *code, lds_memory memory, lds_fault *fault) {
  const lds_model m = model_for(s->model, p);
  const uint8_t *constants[LDS_REGIONS];
  uint32_t r;
  int status = LDS_OK;
  for (r = 0; r < LDS_REGIONS && status == LDS_OK; ++r) {
    constants[r] = s->region[r].cpu;
    if (s->region[r].flags != 0) status = lds_device_reaches(device, &s->region[r], 1u);
  }
  if (status == LDS_OK) status = lds_device_reaches(device, &s->code, LDS_VTA_INSN_BYTES);
  if (s->config.validate != NULL && status == LDS_OK) {
    uint8_t *scratch = lds_piece(&memory, lds_validate_scratch_bytes(&m), SCRATCH_ALIGN);
    if (scratch == NULL) return LDS_ERR_MEMORY;
    status = s->config.validate(&m, code, p->instructions, constants, scratch, fault);
    fault->layer = lds_program_layer(s->model, p, fault->instruction);
  }
  return status == LDS_OK ? lds_stream_resolve(s, &m, code, p->instructions) : status;
}
