/* What stands in a session's memory: inputs and outputs by copy and in place, and the operands of its steps.
 *
 * In:   a session that session.c opened.
 * Out:  bytes, and where they stand; moved to the device and back where it does not share the host's caches.
 * Next: run.c takes the operands of host steps.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"
#include "sizes.h"

int lds_session_sync(lds_session *s, const lds_tensor *t, int direction) {
  const lds_dma_buffer *b = &s->region[t->region];
  const lds_hal *hal = s->device->hal;
  size_t size_bytes;
  if (b->flags == 0 || hal->dma_sync == NULL) return LDS_OK;
  if (direction == LDS_DMA_FROM_DEVICE && (b->flags & LDS_DMA_DEVICE_WRITES) == 0) return LDS_OK;
  size_bytes = lds_whole_lines(t->offset_bytes, t->size_bytes, b->size_bytes, LDS_DEVICE_ALIGN);
  return hal->dma_sync(hal->ctx, b, t->offset_bytes, size_bytes, direction) == LDS_HAL_OK ? LDS_OK : LDS_ERR_HAL;
}

static void operand_of(lds_session *s, uint32_t tensor, lds_operand *out) {
  lds_model_tensor(s->model, tensor, &out->tensor);
  out->data = (uint8_t *)s->region[out->tensor.region].cpu + out->tensor.offset_bytes;
  if (s->move != NULL) s->move(s, out);
}

uint32_t lds_session_operands(lds_session *s, const lds_step *step, lds_operand *operands, int32_t *parameters) {
  const uint32_t count = step->inputs + step->outputs;
  uint32_t k;
  for (k = 0; k < count; ++k) operand_of(s, lds_model_word(s->model, step->first + k), &operands[k]);
  for (k = count; k < step->count; ++k) parameters[k - count] = lds_i32(lds_model_word(s->model, step->first + k));
  return count;
}

int lds_session_step(const lds_session *s, uint32_t step, lds_step_info *out) {
  lds_step found;
  const char *strings;
  if (s == NULL || out == NULL || step >= s->model->section[LDS_STEPS].count) return LDS_ERR_ARGUMENT;
  found = lds_model_step(s->model, step);
  strings = (const char *)s->model->section[LDS_STRINGS].bytes;
  out->name = strings + found.name;
  out->inputs = found.inputs;
  out->outputs = found.outputs;
  out->function = out->attributes = "";
  if (found.kind == LDS_STEP_EXTERNAL) {
    out->function = strings + lds_model_word(s->model, found.first + found.inputs + found.outputs);
    out->attributes = strings + lds_model_word(s->model, found.first + found.inputs + found.outputs + 1u);
  }
  return LDS_OK;
}

int lds_session_operand(lds_session *s, uint32_t step, uint32_t index, lds_operand *out) {
  lds_step found;
  if (s == NULL || out == NULL || step >= s->model->section[LDS_STEPS].count) return LDS_ERR_ARGUMENT;
  found = lds_model_step(s->model, step);
  if (index >= found.inputs + found.outputs) return LDS_ERR_ARGUMENT;
  operand_of(s, lds_model_word(s->model, found.first + index), out);
  return LDS_OK;
}

static int port(lds_session *s, int section, uint32_t index, lds_operand *out) {
  if (s == NULL || index >= s->model->section[section].count) return LDS_ERR_ARGUMENT;
  operand_of(s, lds_u32(s->model->section[section].bytes + 4u * index), out);
  return LDS_OK;
}

void *lds_session_input(lds_session *s, uint32_t index) {
  lds_operand o;
  return port(s, LDS_INPUTS, index, &o) == LDS_OK ? o.data : NULL;
}

void *lds_session_output(lds_session *s, uint32_t index) {
  lds_operand o;
  return port(s, LDS_OUTPUTS, index, &o) == LDS_OK ? o.data : NULL;
}

int lds_session_set_input(lds_session *s, uint32_t index, const void *data, size_t size_bytes) {
  lds_operand o;
  if (port(s, LDS_INPUTS, index, &o) != LDS_OK || data == NULL || size_bytes != o.tensor.size_bytes) return LDS_ERR_ARGUMENT;
  if (s->phase == LDS_RUNNING) return LDS_ERR_STATE;
  memcpy(o.data, data, size_bytes);
  return LDS_OK;
}

int lds_session_get_output(lds_session *s, uint32_t index, void *data, size_t size_bytes) {
  lds_operand o;
  if (port(s, LDS_OUTPUTS, index, &o) != LDS_OK || data == NULL || size_bytes != o.tensor.size_bytes) return LDS_ERR_ARGUMENT;
  if (s->phase == LDS_RUNNING) return LDS_ERR_STATE;
  memcpy(data, o.data, size_bytes);
  return LDS_OK;
}
