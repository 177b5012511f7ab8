/* When a host step of an operator of real numbers is sound: rules R19 to R21 of FORMAT.md.
 *
 * In:   an opened model.
 * Out:  LDS_OK or LDS_ERR_OPERATOR, of any operator: after that operators_real.c may trust operands and parameters.
 * Next: operators_real.c executes it; the others' rules are in steps.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

static int are_float(const lds_tensor *t, unsigned count) {
  unsigned k;
  for (k = 0; k < count; ++k) {
    if (t[k].dtype != LDS_FLOAT32 || t[k].layout != LDS_ROW_MAJOR) return 0;
  }
  return 1;
}

static int unary_is_sound(const lds_tensor *t, const int32_t *p) {
  (void)p;
  return are_float(t, 2) && lds_tensor_elements(&t[0]) == lds_tensor_elements(&t[1]);
}

/* extent[6], a_stride[6], b_stride[6] */
static int binary_is_sound(const lds_tensor *t, const int32_t *p) {
  if (!are_float(t, 3)) return 0;
  if (!lds_is_product(lds_tensor_elements(&t[2]), 1, p, LDS_RANK)) return 0;
  return lds_reaches_inside(0, p, p + LDS_RANK, lds_tensor_elements(&t[0])) &&
         lds_reaches_inside(0, p, p + 2 * LDS_RANK, lds_tensor_elements(&t[1]));
}

/* depth, inner */
static int sum_is_sound(const lds_tensor *t, const int32_t *p) {
  const uint32_t elements = lds_tensor_elements(&t[1]);
  if (!are_float(t, 2) || p[1] < 1) return 0;
  return elements % (uint32_t)p[1] == 0 && lds_is_product(lds_tensor_elements(&t[0]), elements, p, 1);
}

/* m, k, n, a_shared, b_shared */
static int matmul_is_sound(const lds_tensor *t, const int32_t *p) {
  const uint32_t elements = lds_tensor_elements(&t[2]);
  uint64_t matrix;
  uint32_t batch;
  if (!are_float(t, 3) || p[0] < 1 || p[1] < 1 || p[2] < 1 || p[3] > 1 || p[4] > 1) return 0;
  matrix = (uint64_t)(uint32_t)p[0] * (uint32_t)p[2];
  if (elements % matrix != 0) return 0;
  batch = (uint32_t)(elements / matrix);
  return lds_is_product(lds_tensor_elements(&t[0]), p[3] ? 1u : batch, p, 2) &&
         lds_is_product(lds_tensor_elements(&t[1]), p[4] ? 1u : batch, p + 1, 2);
}

/* extent, inner */
static int gather_is_sound(const lds_tensor *t, const int32_t *p) {
  const uint32_t elements = lds_tensor_elements(&t[0]);
  uint64_t whole;
  int32_t indices;
  if (t[1].layout != LDS_ROW_MAJOR || t[2].layout != LDS_ROW_MAJOR || p[0] < 1 || p[1] < 1) return 0;
  if (t[0].layout == LDS_BLOCKED &&
      ((uint32_t)p[0] != t[0].dims[0] || (uint32_t)p[1] != t[0].dims[3] || (t[0].dims[1] | t[0].dims[2]) != 1u)) {
    return 0;
  }
  if (lds_element_bytes(t[0].dtype) != lds_element_bytes(t[2].dtype) || (t[1].dtype != LDS_INT32 && t[1].dtype != LDS_INT64)) return 0;
  whole = (uint64_t)(uint32_t)p[0] * (uint32_t)p[1];
  if (elements % whole != 0) return 0;
  indices = (int32_t)lds_tensor_elements(&t[1]); /* of four bytes and more: 30 bits */
  return lds_is_product(lds_tensor_elements(&t[2]), (uint32_t)(elements / whole) * (uint32_t)p[1], &indices, 1);
}

static const struct {
  uint32_t kind;
  lds_step_shape shape;
  int (*is_sound)(const lds_tensor *t, const int32_t *p);
} rules[] = {
    {LDS_STEP_EXP_FLOAT32, {1, 1, 0, 0, 0}, unary_is_sound},
    {LDS_STEP_LOG_FLOAT32, {1, 1, 0, 0, 0}, unary_is_sound},
    {LDS_STEP_SQRT_FLOAT32, {1, 1, 0, 0, 0}, unary_is_sound},
    {LDS_STEP_RSQRT_FLOAT32, {1, 1, 0, 0, 0}, unary_is_sound},
    {LDS_STEP_TANH_FLOAT32, {1, 1, 0, 0, 0}, unary_is_sound},
    {LDS_STEP_SIGMOID_FLOAT32, {1, 1, 0, 0, 0}, unary_is_sound},
    {LDS_STEP_ERF_FLOAT32, {1, 1, 0, 0, 0}, unary_is_sound},
    {LDS_STEP_ADD_FLOAT32, {2, 1, 18, LDS_SHARED_INPUTS, 0}, binary_is_sound},
    {LDS_STEP_SUBTRACT_FLOAT32, {2, 1, 18, LDS_SHARED_INPUTS, 0}, binary_is_sound},
    {LDS_STEP_MULTIPLY_FLOAT32, {2, 1, 18, LDS_SHARED_INPUTS, 0}, binary_is_sound},
    {LDS_STEP_DIVIDE_FLOAT32, {2, 1, 18, LDS_SHARED_INPUTS, 0}, binary_is_sound},
    {LDS_STEP_MAXIMUM_FLOAT32, {2, 1, 18, LDS_SHARED_INPUTS, 0}, binary_is_sound},
    {LDS_STEP_MINIMUM_FLOAT32, {2, 1, 18, LDS_SHARED_INPUTS, 0}, binary_is_sound},
    {LDS_STEP_POWER_FLOAT32, {2, 1, 18, LDS_SHARED_INPUTS, 0}, binary_is_sound},
    {LDS_STEP_SUM_FLOAT32, {1, 1, 2, 0, 0}, sum_is_sound},
    {LDS_STEP_MATMUL_FLOAT32, {2, 1, 5, LDS_SHARED_INPUTS, 0}, matmul_is_sound},
    {LDS_STEP_GATHER, {2, 1, 2, LDS_SHARED_INPUTS, 0}, gather_is_sound},
};

int lds_real_step_check(const lds_model *model, uint32_t step) {
  const lds_step s = lds_model_step(model, step);
  lds_tensor t[LDS_MAX_OPERANDS];
  int32_t p[LDS_MAX_PARAMETERS];
  unsigned k;
  for (k = 0; k < sizeof rules / sizeof rules[0]; ++k) {
    if (rules[k].kind != s.kind) continue;
    return lds_step_read(model, &s, &rules[k].shape, t, p) && rules[k].is_sound(t, p) ? LDS_OK : LDS_ERR_OPERATOR;
  }
  return lds_step_check(model, step);
}
