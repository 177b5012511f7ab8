/* When a host step is sound: rules R19 to R21 of FORMAT.md, for all operators but those of real numbers.
 *
 * In:   an opened model.
 * Out:  LDS_OK or LDS_ERR_OPERATOR: after that operators.c may trust operands and parameters.
 * Next: steps_real.c has the others; operators.c executes it.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

enum { MAX_SOFTMAX_DEPTH = 4096 };

/* By operator; the device's programs are none. */
static const lds_step_shape shapes[LDS_STEP_EXP_FLOAT32] = {
    {0, 0, 0, 0, 0},            /* device program */
    {1, 1, 20, 0, 0},           /* copy */
    {0, 1, 1, 0, 0},            /* fill */
    {1, 1, 11, 0, 0x200},       /* pack: pad_value */
    {1, 1, 1, 0, 0},            /* unpack */
    {1, 1, 3, 0, 0x6},          /* quantize: low, high */
    {1, 1, 0, 0, 0},            /* dequantize */
    {2, 1, 0, LDS_IN_PLACE, 0}, /* lookup */
    {1, 1, 4, 0, 0x8},          /* softmax_int8: diff_min */
    {1, 1, 1, LDS_IN_PLACE, 0}, /* softmax_float32 */
    {1, 1, 1, 0, 0},            /* argmax */
};

static int is_byte(const lds_tensor *t) { return t->dtype == LDS_INT8 || t->dtype == LDS_UINT8; }

static int row_major(const lds_tensor *t) { return t->layout == LDS_ROW_MAJOR; }

static int same_elements(const lds_tensor *x, const lds_tensor *y) {
  return row_major(x) && row_major(y) && lds_tensor_elements(x) == lds_tensor_elements(y);
}

static int copy_is_sound(const lds_tensor *t, const int32_t *p) {
  const uint32_t size = lds_element_bytes(t[0].dtype);
  const uint32_t elements = t[1].size_bytes / size;
  uint64_t moved = 1;
  unsigned k;
  if (size != lds_element_bytes(t[1].dtype)) return 0;
  for (k = 0; k < LDS_RANK; ++k) {
    if (p[2 + k] < 1) return 0;
    moved *= (uint32_t)p[2 + k];
    if (moved > elements) return 0;
  }
  return lds_reaches_inside((uint32_t)p[0], p + 2, p + 8, t[0].size_bytes / size) &&
         lds_reaches_inside((uint32_t)p[1], p + 2, p + 14, elements);
}

/* Whether a row-major tensor and a blocked one are of types that pack and unpack change into each other. */
static int is_packable(const lds_tensor *rows, const lds_tensor *blocks) {
  if (!row_major(rows) || blocks->layout != LDS_BLOCKED) return 0;
  return blocks->dtype == LDS_BFLOAT16 ? rows->dtype == LDS_FLOAT32 : blocks->dtype == LDS_INT8 && is_byte(rows);
}

/* h, w, c, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, pad_value, nchw */
static int pack_is_sound(const lds_tensor *t, const int32_t *p) {
  const uint32_t *out = t[1].dims;
  const uint32_t elements = lds_tensor_elements(&t[0]);
  unsigned k;
  if (!is_packable(&t[0], &t[1])) return 0;
  for (k = 0; k < 7; ++k) {
    if (p[k] < 1) return 0;
  }
  if (p[9] < -128 || p[9] > 127 || (p[9] != 0 && t[1].dtype == LDS_BFLOAT16) || p[10] > 1) return 0;
  /* N * h * w * c by division, as the product may be large; the quotients are exact when the product is. */
  if (elements % out[0] != 0 || elements / out[0] % (uint32_t)p[0] != 0 || elements / out[0] / (uint32_t)p[0] % (uint32_t)p[1] != 0)
    return 0;
  if (elements / out[0] / (uint32_t)p[0] / (uint32_t)p[1] != (uint32_t)p[2]) return 0;
  if (out[3] % (uint32_t)p[2] != 0 || (uint64_t)(uint32_t)p[3] * (uint32_t)p[4] != out[3] / (uint32_t)p[2]) return 0;
  if ((uint64_t)(out[1] - 1u) * (uint32_t)p[5] >= (uint64_t)(uint32_t)p[7] + (uint32_t)p[0]) return 0;
  return (uint64_t)(out[2] - 1u) * (uint32_t)p[6] < (uint64_t)(uint32_t)p[8] + (uint32_t)p[1];
}

static int unpack_is_sound(const lds_tensor *t, const int32_t *p) {
  if (t[0].dtype == LDS_INT32) { /* whole sums */
    if (!row_major(&t[1]) || t[0].layout != LDS_BLOCKED || t[1].dtype != LDS_INT32 || p[0] != 0) return 0;
  } else if (!is_packable(&t[1], &t[0])) {
    return 0;
  }
  return lds_tensor_elements(&t[0]) == lds_tensor_elements(&t[1]) && p[0] <= 1;
}

static int quantize_is_sound(const lds_tensor *t, const int32_t *p) {
  const int32_t least = t[1].dtype == LDS_INT8 ? -128 : 0;
  if (t[0].dtype != LDS_FLOAT32 || !is_byte(&t[1]) || !same_elements(&t[0], &t[1])) return 0;
  if (!(t[1].scale > 0.0f && t[1].scale <= 3.402823466e38f)) return 0;
  if ((uint32_t)t[1].zero_point - (uint32_t)least > 255u) return 0;
  return p[0] <= 1 && least <= p[1] && p[1] <= p[2] && p[2] <= least + 255;
}

static int dequantize_is_sound(const lds_tensor *t) {
  return (is_byte(&t[0]) || t[0].dtype == LDS_INT32) && t[1].dtype == LDS_FLOAT32 && same_elements(&t[0], &t[1]);
}

static int lookup_is_sound(const lds_tensor *t) {
  if (!is_byte(&t[0]) || !same_elements(&t[0], &t[2]) || !row_major(&t[1])) return 0;
  return lds_tensor_elements(&t[1]) == 256 && lds_element_bytes(t[1].dtype) == lds_element_bytes(t[2].dtype);
}

static int divides(int32_t depth, const lds_tensor *t) { return depth >= 1 && lds_tensor_elements(t) % (uint32_t)depth == 0; }

/* depth, multiplier, left_shift, diff_min */
static int softmax_int8_is_sound(const lds_tensor *t, const int32_t *p) {
  if (!is_byte(&t[0]) || t[0].dtype != t[1].dtype || !same_elements(&t[0], &t[1])) return 0;
  return divides(p[0], &t[0]) && p[0] <= MAX_SOFTMAX_DEPTH && p[2] <= 31 && p[3] <= 0;
}

static int softmax_float32_is_sound(const lds_tensor *t, const int32_t *p) {
  return t[0].dtype == LDS_FLOAT32 && t[1].dtype == LDS_FLOAT32 && same_elements(&t[0], &t[1]) && divides(p[0], &t[0]);
}

static int argmax_is_sound(const lds_tensor *t, const int32_t *p) {
  if (!is_byte(&t[0]) || (t[1].dtype != LDS_INT32 && t[1].dtype != LDS_INT64) || !row_major(&t[0]) || !row_major(&t[1])) return 0;
  return p[0] >= 1 && lds_is_product(lds_tensor_elements(&t[0]), lds_tensor_elements(&t[1]), p, 1);
}

static int is_sound(uint32_t kind, const lds_tensor *t, const int32_t *p) {
  switch (kind) {
    case LDS_STEP_COPY:
      return copy_is_sound(t, p);
    case LDS_STEP_FILL:
      return p[0] <= 255;
    case LDS_STEP_PACK:
      return pack_is_sound(t, p);
    case LDS_STEP_UNPACK:
      return unpack_is_sound(t, p);
    case LDS_STEP_QUANTIZE:
      return quantize_is_sound(t, p);
    case LDS_STEP_DEQUANTIZE:
      return dequantize_is_sound(t);
    case LDS_STEP_LOOKUP:
      return lookup_is_sound(t);
    case LDS_STEP_SOFTMAX_INT8:
      return softmax_int8_is_sound(t, p);
    case LDS_STEP_SOFTMAX_FLOAT32:
      return softmax_float32_is_sound(t, p);
    default:
      return argmax_is_sound(t, p);
  }
}

static int overlap(const lds_tensor *a, const lds_tensor *b) {
  if (a->region != b->region) return 0;
  return (uint64_t)a->offset_bytes + a->size_bytes > b->offset_bytes && (uint64_t)b->offset_bytes + b->size_bytes > a->offset_bytes;
}

/* R21, from operand `first` on; `shared`: so many inputs may overlap each other. */
static int apart(const lds_tensor *t, uint32_t operands, uint32_t first, uint32_t shared) {
  uint32_t a, b;
  for (a = first; a < operands; ++a) {
    for (b = a + 1u; b < operands; ++b) {
      if (b >= shared && overlap(&t[a], &t[b])) return 0;
    }
  }
  return 1;
}

/* Tensors exist and outputs are not constants. */
static int operands_are_sound(const lds_model *model, const lds_step *step) {
  uint32_t k;
  for (k = 0; k < step->inputs + step->outputs; ++k) {
    const uint32_t index = lds_model_word(model, step->first + k);
    lds_tensor t;
    if (index >= model->section[LDS_TENSOR_TABLE].count) return 0;
    lds_model_tensor(model, index, &t);
    if (k >= step->inputs && lds_model_region(model, t.region).kind == LDS_REGION_CONSTANTS) return 0;
  }
  return 1;
}

static int external_is_sound(const lds_model *model, const lds_step *step) {
  const uint32_t operands = step->inputs + step->outputs;
  if (step->outputs == 0 || step->count != operands + 2u || !operands_are_sound(model, step)) return 0;
  return lds_model_is_string(model, lds_model_word(model, step->first + operands)) &&
         lds_model_is_string(model, lds_model_word(model, step->first + operands + 1u));
}

int lds_step_read(const lds_model *model, const lds_step *step, const lds_step_shape *shape, lds_tensor *t, int32_t *p) {
  const uint32_t operands = step->inputs + step->outputs;
  uint32_t k;
  int in_place;
  if (step->inputs != shape->inputs || step->outputs != shape->outputs) return 0;
  if (step->count != operands + shape->parameters || !operands_are_sound(model, step)) return 0;
  for (k = 0; k < operands; ++k) lds_model_tensor(model, lds_model_word(model, step->first + k), &t[k]);
  for (k = 0; k < shape->parameters; ++k) {
    p[k] = lds_i32(lds_model_word(model, step->first + operands + k));
    if (p[k] < 0 && (shape->is_signed >> (k & 15u) & 1u) == 0) return 0;
  }
  /* operand 0 is the output itself and left out */
  in_place = shape->overlap == LDS_IN_PLACE && lds_model_word(model, step->first) == lds_model_word(model, step->first + step->inputs);
  return apart(t, operands, (uint32_t)in_place, shape->overlap == LDS_SHARED_INPUTS ? step->inputs : 0u);
}

static int builtin_is_sound(const lds_model *model, const lds_step *step) {
  lds_tensor t[LDS_MAX_OPERANDS];
  int32_t p[LDS_MAX_PARAMETERS];
  return step->kind < LDS_STEP_EXP_FLOAT32 && lds_step_read(model, step, &shapes[step->kind], t, p) && is_sound(step->kind, t, p);
}

int lds_step_check(const lds_model *model, uint32_t step) {
  const lds_step s = lds_model_step(model, step);
  if (s.kind == LDS_STEP_PROGRAM) return LDS_OK; /* the model's own rules */
  return (s.kind == LDS_STEP_EXTERNAL ? external_is_sound(model, &s) : builtin_is_sound(model, &s)) ? LDS_OK : LDS_ERR_OPERATOR;
}
