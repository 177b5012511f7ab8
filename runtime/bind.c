/* Inputs and outputs in memory of the caller's own, so that nothing is copied.
 *
 * In:   an opened model; a session.
 * Out:  which inputs and outputs may be somewhere else, and a session that finds them there.
 * Next: operands.c asks `move` for each operand; runtime/hosts/easy.c makes it from arrays in the device's memory.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

/* Whether two pieces of one region have a byte in common. */
static int overlap(const lds_tensor *a, const lds_tensor *b) {
  return a->region == b->region && (uint64_t)a->offset_bytes + a->size_bytes > b->offset_bytes &&
         (uint64_t)b->offset_bytes + b->size_bytes > a->offset_bytes;
}

static int inside(const lds_tensor *a, const lds_tensor *whole) {
  return a->offset_bytes >= whole->offset_bytes &&
         (uint64_t)a->offset_bytes + a->size_bytes <= (uint64_t)whole->offset_bytes + whole->size_bytes;
}

/* Views of it move with it; what it shares with another tensor cannot. */
static int has_its_memory_alone(const lds_model *model, const lds_tensor *t) {
  uint32_t k, ports = 0, section;
  lds_tensor other;
  for (k = 0; k < model->section[LDS_TENSOR_TABLE].count; ++k) {
    lds_model_tensor(model, k, &other);
    if (overlap(t, &other) && !inside(&other, t)) return 0;
  }
  for (section = LDS_INPUTS; section <= LDS_OUTPUTS; ++section) {
    for (k = 0; k < model->section[section].count; ++k) {
      lds_model_tensor(model, lds_u32(model->section[section].bytes + 4u * k), &other);
      ports += (uint32_t)overlap(t, &other);
    }
  }
  return ports == 1; /* itself */
}

/* A step's output that lies in t's memory: whether it is the whole of it. A copy may leave elements as they are. */
static int covers(const lds_model *model, const lds_step *step, const lds_tensor *written, const lds_tensor *t) {
  uint64_t moved = 1;
  uint32_t k;
  if (written->offset_bytes != t->offset_bytes || written->size_bytes != t->size_bytes) return 0;
  for (k = 0; step->kind == LDS_STEP_COPY && k < LDS_RANK; ++k) moved *= lds_model_word(model, step->first + 4u + k);
  return step->kind != LDS_STEP_COPY || moved == lds_tensor_elements(written);
}

/* How steps treat it: bit 0 when one writes to it, bit 1 when one writes all of it. */
static int writes(const lds_model *model, const lds_tensor *t) {
  int found = 0;
  uint32_t at, k;
  for (at = 0; at < model->section[LDS_STEPS].count; ++at) {
    const lds_step step = lds_model_step(model, at);
    if (step.kind == LDS_STEP_PROGRAM) continue;
    for (k = 0; k < step.outputs; ++k) {
      lds_tensor written;
      lds_model_tensor(model, lds_model_word(model, step.first + step.inputs + k), &written);
      if (overlap(&written, t)) found |= covers(model, &step, &written, t) ? 3 : 1;
    }
  }
  return found;
}

static int binding_of(const lds_model *model, int section, uint32_t index, lds_binding *out) {
  lds_region region;
  lds_tensor t;
  int found;
  if (model == NULL || out == NULL || index >= model->section[section].count) return LDS_ERR_ARGUMENT;
  lds_model_tensor(model, lds_u32(model->section[section].bytes + 4u * index), &t);
  region = lds_model_region(model, t.region);
  found = writes(model, &t);
  memset(out, 0, sizeof *out);
  out->region = t.region;
  out->offset_bytes = t.offset_bytes;
  if (region.flags != 0 || region.kind == LDS_REGION_STATE || !has_its_memory_alone(model, &t)) return LDS_OK;
  if (section == LDS_INPUTS ? found == 0 : found == 3) out->size_bytes = t.size_bytes;
  return LDS_OK;
}

int lds_binding_input(const lds_model *model, uint32_t index, lds_binding *out) { return binding_of(model, LDS_INPUTS, index, out); }

int lds_binding_output(const lds_model *model, uint32_t index, lds_binding *out) { return binding_of(model, LDS_OUTPUTS, index, out); }

/* An operand, and a view of one, to where it is bound. */
static void move(const lds_session *s, lds_operand *operand) {
  const lds_tensor *t = &operand->tensor;
  uint32_t k;
  for (k = 0; k < s->bound_count; ++k) {
    const lds_binding *b = &s->bound[k];
    const uint32_t inside_bytes = t->offset_bytes - b->offset_bytes;
    if (b->data != NULL && b->region == t->region && inside_bytes < b->size_bytes) operand->data = b->data + inside_bytes;
  }
}

int lds_session_bind(lds_session *s, const lds_binding *bindings, uint32_t count) {
  if (s == NULL || (bindings == NULL && count != 0)) return LDS_ERR_ARGUMENT;
  if (s->phase == LDS_RUNNING) return LDS_ERR_STATE;
  s->bound = bindings;
  s->bound_count = count;
  s->move = count != 0 ? move : NULL;
  return LDS_OK;
}
