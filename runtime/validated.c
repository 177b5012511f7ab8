/* Validate the programs of VTAs in a model: all of them, or one in its place in a session.
 *
 * In:   an opened model; a session.
 * Out:  LDS_OK, or the first instruction that is refused.
 * Next: session.c, through lds_session_config.validate.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

enum { SCRATCH_ALIGN = 16 };

/* Fills in the program of a step; 0: it is none of a VTA. */
static int vta_program_at(const lds_model *model, uint32_t step, lds_program *out) {
  if (lds_model_step(model, step).kind != LDS_STEP_PROGRAM) return 0;
  lds_program_at(model, step, out);
  return lds_hashed_bytes(lds_model_fingerprint(model, out->device)) == LDS_CONFIGURATION_BYTES;
}

size_t lds_model_scratch_bytes(const lds_model *model) {
  size_t most = 0;
  uint32_t k;
  for (k = 0; k < model->section[LDS_STEPS].count; ++k) {
    lds_program p;
    if (vta_program_at(model, k, &p)) most = lds_size_max(most, lds_validate_scratch_bytes(model, p.device));
  }
  return most;
}

int lds_model_validate(const lds_model *model, void *scratch, size_t scratch_bytes, lds_fault *fault) {
  const uint8_t *constants[LDS_REGIONS] = {NULL};
  lds_fault ignored;
  uint32_t r, k;
  int status = LDS_OK;
  if (model == NULL || scratch == NULL || scratch_bytes < lds_model_scratch_bytes(model)) return LDS_ERR_ARGUMENT;
  fault = fault != NULL ? fault : &ignored;
  memset(fault, 0, sizeof *fault);
  for (r = 0; r < model->section[LDS_REGION_TABLE].count; ++r) {
    const lds_region region = lds_model_region(model, r);
    if (region.kind == LDS_REGION_CONSTANTS) constants[r] = model->section[LDS_DATA].bytes + region.data_offset;
  }
  for (k = 0; k < model->section[LDS_STEPS].count && status == LDS_OK; ++k) {
    lds_program p;
    if (!vta_program_at(model, k, &p)) continue;
    status = lds_validate(model, p.device, model->section[LDS_CODE].bytes + p.offset_bytes, p.instructions, constants, scratch, fault);
    if (status != LDS_OK) lds_fault_at(model, k, fault->instruction, fault);
  }
  fault->status = status;
  return status;
}

void lds_session_constants(const lds_session *s, const uint8_t **constants) {
  uint32_t r;
  for (r = 0; r < LDS_REGIONS; ++r) {
    const int constant = r < s->model->section[LDS_REGION_TABLE].count && lds_model_region(s->model, r).kind == LDS_REGION_CONSTANTS;
    constants[r] = constant ? s->region[r].cpu : NULL;
  }
}

static int validate_program(const lds_session *s, const lds_program *p, const uint8_t *code, lds_memory memory, lds_fault *fault) {
  const uint8_t *constants[LDS_REGIONS];
  uint8_t *scratch = lds_piece(&memory, lds_validate_scratch_bytes(s->model, p->device), SCRATCH_ALIGN);
  if (scratch == NULL) return LDS_ERR_MEMORY;
  lds_session_constants(s, constants);
  return lds_validate(s->model, p->device, code, p->instructions, constants, scratch, fault);
}

const struct lds_validator lds_validator = {lds_model_scratch_bytes, validate_program};
