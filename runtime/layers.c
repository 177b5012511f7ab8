/* What lds_layers.h says.
 *
 * In:   a session, whose pinned instructions are changed.
 * Out:  digests.
 * Next: python/loadstone/analysis/taps.py does the same from outside, with artifacts.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "geometry.h"
#include "lds_isa.h"
#include "lds_layers.h"
#include "program.h"
#include "session.h"

#define FNV_START 0x811C9DC5u
#define FNV_PRIME 0x01000193u
enum { KEPT_BITS = 0x7F }; /* opcode and tokens: a no-op has nothing else */

typedef struct teller {
  lds_session *session;
  lds_digest_function tell;
  void *ctx;
} teller;

/* --- digests ------------------------------------------------------------------------------------------------------------------ */
static uint32_t fnv(uint32_t value, const uint8_t *bytes, uint32_t count) {
  uint32_t k;
  for (k = 0; k < count; ++k) value = (value ^ bytes[k]) * FNV_PRIME;
  return value;
}

static uint32_t elements_of(const lds_tensor *t) {
  uint32_t count = 1, k;
  for (k = 0; k < t->rank; ++k) count *= t->dims[k];
  return count;
}

/* Blocked: [N/batch_block][C/channel_block][H][W][batch_block][channel_block]. */
static uint32_t blocked_digest(const uint8_t *data, const lds_tensor *t) {
  const uint32_t b = t->batch_block, c = t->channel_block, blocks = (t->dims[3] + c - 1u) / c, size = lds_element_bytes(t->dtype);
  uint32_t value = FNV_START, n, pixel, lane;
  for (n = 0; n < t->dims[0]; ++n) {
    for (pixel = 0; pixel < t->dims[1] * t->dims[2]; ++pixel) {
      for (lane = 0; lane < t->dims[3]; ++lane) {
        const uint32_t plane = n / b * blocks + lane / c;
        const uint32_t element = ((plane * t->dims[1] * t->dims[2] + pixel) * b + n % b) * c + lane % c;
        value = fnv(value, data + element * size, size);
      }
    }
  }
  return value;
}

static int tell_tensor(const teller *to, uint32_t step, uint32_t behind, const lds_tensor *t) {
  const uint8_t *data = (const uint8_t *)to->session->region[t->region].cpu + t->offset_bytes;
  const int status = lds_session_sync(to->session, t, LDS_DMA_FROM_DEVICE);
  if (status != LDS_OK) return status;
  to->tell(to->ctx, step, behind, elements_of(t), t->layout == LDS_BLOCKED ? blocked_digest(data, t) : fnv(FNV_START, data, t->size_bytes));
  return LDS_OK;
}

/* --- layers ------------------------------------------------------------------------------------------------------------------- */
/* Whether a tensor's name is the layer's with " on device" behind it. */
static int is_output_of(const char *tensor, const char *layer) {
  const char *rest = " on device";
  for (; *layer != '\0' && *tensor == *layer; ++layer) ++tensor;
  if (*layer != '\0') return 0;
  for (; *rest != '\0' && *tensor == *rest; ++rest) ++tensor;
  return *rest == '\0' && *tensor == '\0';
}

static int output_of(const lds_model *model, const char *layer, lds_tensor *out) {
  uint32_t k;
  for (k = 0; k < model->section[LDS_TENSOR_TABLE].count; ++k) {
    lds_model_tensor(model, k, out);
    if (is_output_of(out->name, layer)) return 1;
  }
  return 0;
}

/* Of a tensor in DRAM: what goes to INP alone has no place that could be read. */
static int is_store(const uint8_t *insn) {
  const uint64_t size = lds_get_u64(insn + 8) >> (LDS_BIT_MEMORY_X_SIZE - 64u) & 0xFFFFu;
  const uint64_t memory = lds_get_u64(insn) >> LDS_BIT_MEMORY_MEMORY_ID & 7u;
  return (insn[0] & 7u) == LDS_OPCODE_STORE && size != 0 && memory != LDS_MEMORY_INP;
}

/* Behind each layer of a program, from the last store to the first: nothing behind it is stored any more. */
static int tell_program(const teller *to, uint32_t step) {
  lds_session *s = to->session;
  const lds_hal *hal = s->device->hal;
  const char *told = NULL;
  lds_program p;
  uint32_t k;
  lds_program_at(s->model, step, &p);
  if (p.device != 0) return lds_session_run(s); /* one of another device runs whole */
  for (k = p.instructions; k-- > 0;) {
    uint8_t *insn = (uint8_t *)s->code.cpu + p.offset_bytes + (size_t)k * LDS_INSN_BYTES;
    const char *layer = lds_program_layer(s->model, &p, k);
    lds_tensor output;
    if (!is_store(insn)) continue;
    if (*layer != '\0' && layer != told && output_of(s->model, layer, &output)) {
      int status = lds_session_run(s);
      if (status == LDS_OK) status = tell_tensor(to, step, k, &output);
      if (status != LDS_OK) return status;
      told = layer;
    }
    insn[0] &= KEPT_BITS;
    memset(insn + 1, 0, LDS_INSN_BYTES - 1);
    if (hal->dma_sync != NULL && hal->dma_sync(hal->ctx, &s->code, 0, s->code.size_bytes, LDS_DMA_TO_DEVICE) != LDS_HAL_OK) {
      return LDS_ERR_HAL;
    }
  }
  return LDS_OK;
}

static int tell_host_step(const teller *to, uint32_t step, const lds_step *host) {
  int status = lds_session_run(to->session);
  uint32_t k;
  for (k = 0; k < host->outputs && status == LDS_OK; ++k) {
    lds_operand operand;
    status = lds_session_operand(to->session, step, host->inputs + k, &operand);
    if (status == LDS_OK) status = tell_tensor(to, step, k, &operand.tensor);
  }
  return status;
}

int lds_session_digests(lds_session *s, lds_model *model, lds_digest_function tell, void *ctx) {
  teller to;
  uint32_t count, k;
  int status = LDS_OK;
  if (s == NULL || tell == NULL || model == NULL || s->model != model) return LDS_ERR_ARGUMENT;
  if (s->code.cpu != NULL && (s->owned >> LDS_REGIONS & 1u) == 0) return LDS_ERR_STATE;
  to.session = s;
  to.tell = tell;
  to.ctx = ctx;
  count = model->section[LDS_STEPS].count;
  for (k = lds_first_steps(model); k-- > 0 && status == LDS_OK;) { /* the entry that lds_session_run runs */
    const lds_step step = lds_model_step(model, k);
    model->section[LDS_STEPS].count = k + 1u; /* what comes behind it does not run */
    status = step.kind == LDS_STEP_PROGRAM ? tell_program(&to, k) : tell_host_step(&to, k, &step);
  }
  model->section[LDS_STEPS].count = count;
  return status;
}
