/* When a host step on rows of a decoder is sound: rules R19 to R21 of FORMAT.md; and, before it runs, whether its place is there.
 *
 * In:   an opened model; operands of a step that is about to run.
 * Out:  LDS_OK or LDS_ERR_OPERATOR, of any operator; LDS_OK or LDS_ERR_PLACE.
 * Next: operators_rows.c and operators_cache.c execute it; the others' rules are in steps_real.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators_rows.h"
#include "steps.h"

static int is_float(const lds_tensor *t) { return t->dtype == LDS_FLOAT32 && t->layout == LDS_ROW_MAJOR; }

static int is_of(const lds_tensor *t, uint32_t dtype) { return t->dtype == dtype && t->layout == LDS_ROW_MAJOR; }

/* A position and a number of rows. */
static int is_place(const lds_tensor *t) { return is_of(t, LDS_INT32) && lds_tensor_elements(t) == 2; }

/* A finite number as bits; none is negative. */
static int is_finite(int32_t bits) { return bits < 0x7F800000; }

static int same(const lds_tensor *x, const lds_tensor *y) { return lds_tensor_elements(x) == lds_tensor_elements(y); }

/* Rows of so many elements each; 0 where they do not divide. */
static uint32_t rows_of(const lds_tensor *t, const int32_t *factors, unsigned count) {
  const uint32_t elements = lds_tensor_elements(t);
  uint64_t row = 1;
  unsigned k;
  for (k = 0; k < count; ++k) {
    row *= (uint32_t)factors[k];
    if (row == 0 || row > elements) return 0;
  }
  return elements % row == 0 ? (uint32_t)(elements / row) : 0;
}

/* depth, epsilon */
static int rms_norm_is_sound(const lds_tensor *t, const int32_t *p) {
  return is_float(&t[0]) && is_float(&t[1]) && is_float(&t[2]) && same(&t[0], &t[2]) && rows_of(&t[2], p, 1) != 0 &&
         lds_is_product(lds_tensor_elements(&t[1]), 1, p, 1) && is_finite(p[1]);
}

/* heads, size, turned, neighbours */
static int rotate_places_is_sound(const lds_tensor *t, const int32_t *p) {
  return is_float(&t[0]) && is_place(&t[1]) && is_float(&t[2]) && is_float(&t[3]) && same(&t[0], &t[3]) && rows_of(&t[3], p, 2) != 0 &&
         rows_of(&t[2], p + 2, 1) != 0 && p[2] % 2 == 0 && p[2] <= p[1] && p[3] <= 1;
}

/* depth, rotate */
static int rotation_fits(const int32_t *p) { return p[1] == 0 || (p[1] == 1 && p[0] % 64 == 0); }

static int row_scales_is_sound(const lds_tensor *t, const int32_t *p) {
  return is_float(&t[0]) && is_float(&t[1]) && rows_of(&t[0], p, 1) == lds_tensor_elements(&t[1]) && rotation_fits(p);
}

static int quantize_rows_is_sound(const lds_tensor *t, const int32_t *p) {
  return is_float(&t[0]) && is_float(&t[1]) && is_of(&t[2], LDS_INT8) && same(&t[0], &t[2]) &&
         rows_of(&t[0], p, 1) == lds_tensor_elements(&t[1]) && rotation_fits(p);
}

/* channels, planes */
static int rescale_rows_is_sound(const lds_tensor *t, const int32_t *p) {
  const uint32_t rows = lds_tensor_elements(&t[1]), elements = lds_tensor_elements(&t[0]);
  if (!is_float(&t[1]) || !is_float(&t[2]) || !is_float(&t[3]) || !is_of(&t[0], p[1] == 0 ? LDS_INT32 : LDS_INT8)) return 0;
  if (rows_of(&t[3], p, 1) != rows || !lds_is_product(lds_tensor_elements(&t[2]), 1, p, 1)) return 0;
  if (p[1] < 2) return lds_is_product(elements, rows, p, 1);
  if (p[1] > 4 || p[1] == 2) return 0;
  return elements % ((uint64_t)rows * (uint32_t)p[1]) == 0 && elements / ((uint64_t)rows * (uint32_t)p[1]) >= (uint32_t)p[0];
}

/* groups, size */
static int keep_rows_is_sound(const lds_tensor *t, const int32_t *p) {
  return t[0].layout == LDS_ROW_MAJOR && is_of(&t[2], t[0].dtype) && is_place(&t[1]) && rows_of(&t[0], p, 2) != 0 &&
         rows_of(&t[2], p, 2) != 0;
}

/* heads, groups, size, window, factor */
static int attention_is_sound(const lds_tensor *t, const int32_t *p) {
  const uint32_t places = rows_of(&t[2], p + 1, 2);
  unsigned k;
  for (k = 0; k < 8; ++k) {
    const uint32_t dtype = k == 1 ? LDS_INT32 : k == 2 || k == 4 ? LDS_INT8 : LDS_FLOAT32;
    if (!is_of(&t[k], dtype)) return 0;
  }
  if (!is_place(&t[1]) || places == 0 || p[0] < 1 || p[0] % p[1] != 0) return 0;
  if (!same(&t[0], &t[6]) || lds_tensor_elements(&t[0]) % ((uint64_t)(uint32_t)p[0] * (uint32_t)p[2]) != 0) return 0;
  if (!same(&t[2], &t[4]) || !same(&t[3], &t[5]) || !lds_is_product(lds_tensor_elements(&t[3]), places, p + 1, 1)) return 0;
  return lds_tensor_elements(&t[7]) >= places && is_finite(p[4]);
}

/* function */
static int gate_is_sound(const lds_tensor *t, const int32_t *p) {
  return is_float(&t[0]) && is_float(&t[1]) && is_float(&t[2]) && same(&t[0], &t[2]) && same(&t[1], &t[2]) && p[0] <= 1;
}

static const struct {
  uint32_t kind;
  lds_step_shape shape;
  int (*is_sound)(const lds_tensor *t, const int32_t *p);
} rules[] = {
    {LDS_STEP_RMS_NORM, {2, 1, 2, LDS_SHARED_INPUTS, 0}, rms_norm_is_sound},
    {LDS_STEP_ROTATE_PLACES, {3, 1, 4, LDS_SHARED_INPUTS, 0}, rotate_places_is_sound},
    {LDS_STEP_ROW_SCALES, {1, 1, 2, 0, 0}, row_scales_is_sound},
    {LDS_STEP_QUANTIZE_ROWS, {2, 1, 2, LDS_SHARED_INPUTS, 0}, quantize_rows_is_sound},
    {LDS_STEP_RESCALE_ROWS, {3, 1, 2, LDS_SHARED_INPUTS, 0}, rescale_rows_is_sound},
    {LDS_STEP_KEEP_ROWS, {2, 1, 2, LDS_SHARED_INPUTS, 0}, keep_rows_is_sound},
    {LDS_STEP_ATTENTION, {6, 2, 5, LDS_SHARED_INPUTS, 0}, attention_is_sound},
    {LDS_STEP_GATE, {2, 1, 1, LDS_SHARED_INPUTS, 0}, gate_is_sound},
};

int lds_row_step_check(const lds_model *model, uint32_t step) {
  const lds_step s = lds_model_step(model, step);
  lds_tensor t[LDS_MAX_OPERANDS];
  int32_t p[LDS_MAX_PARAMETERS];
  unsigned k;
  for (k = 0; k < sizeof rules / sizeof rules[0]; ++k) {
    if (rules[k].kind != s.kind) continue;
    return lds_step_read(model, &s, &rules[k].shape, t, p) && rules[k].is_sound(t, p) ? LDS_OK : LDS_ERR_OPERATOR;
  }
  return lds_real_step_check(model, step);
}

/* Operand 1 of a step says a position and a number of rows: there are that many, and the places that they take. */
static int is_inside(const lds_operand *t, uint32_t rows, uint32_t places) {
  const int32_t position = lds_i32(lds_u32(t[1].data)), valid = lds_i32(lds_u32(t[1].data + 4));
  if (position < 0 || valid < 0 || (uint32_t)valid > rows) return 0;
  return (uint32_t)position <= places && (uint32_t)valid <= places - (uint32_t)position;
}

int lds_row_step_ready(uint32_t operator_code, const lds_operand *t, const int32_t *p) {
  int inside = 1;
  if (operator_code == LDS_STEP_ROTATE_PLACES) inside = is_inside(t, rows_of(&t[0].tensor, p, 2), rows_of(&t[2].tensor, p + 2, 1));
  if (operator_code == LDS_STEP_KEEP_ROWS) inside = is_inside(t, rows_of(&t[0].tensor, p, 2), rows_of(&t[2].tensor, p, 2));
  if (operator_code == LDS_STEP_ATTENTION) {
    const int32_t row[2] = {p[0], p[2]};
    inside = is_inside(t, rows_of(&t[0].tensor, row, 2), rows_of(&t[2].tensor, p + 1, 2));
  }
  return inside ? LDS_OK : LDS_ERR_PLACE;
}
