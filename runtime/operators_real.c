/* Host operators on real numbers, and the table of all operators but those on rows of decoders.
 *
 * In:   operands and parameters that lds_real_step_check accepted.
 * Out:  the output's bytes, as defined in FORMAT.md: sums and products are rounded one by one in the order that it states; functions are
 *       computed in double and rounded once.
 * Next: operators_rows.c.
 *
 * Each is a separate function, so that a firmware links only those of its model. Memory may have any alignment.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"
#include "real_math.h"

/* --- functions of one number ------------------------------------------------------------------------------------------------- */
static void each(const lds_operand *t, double (*f)(double)) {
  const size_t elements = t[1].tensor.size_bytes / sizeof(float);
  size_t k;
  for (k = 0; k < elements; ++k) lds_put_float(t[1].data, k, (float)f((double)lds_get_float(t[0].data, k)));
}

void lds_exp_float32(const lds_operand *t, const int32_t *p) {
  (void)p;
  each(t, lds_exp);
}

void lds_log_float32(const lds_operand *t, const int32_t *p) {
  (void)p;
  each(t, lds_log);
}

void lds_sqrt_float32(const lds_operand *t, const int32_t *p) {
  (void)p;
  each(t, lds_sqrt);
}

void lds_rsqrt_float32(const lds_operand *t, const int32_t *p) {
  (void)p;
  each(t, lds_rsqrt);
}

void lds_tanh_float32(const lds_operand *t, const int32_t *p) {
  (void)p;
  each(t, lds_tanh);
}

void lds_sigmoid_float32(const lds_operand *t, const int32_t *p) {
  (void)p;
  each(t, lds_sigmoid);
}

void lds_erf_float32(const lds_operand *t, const int32_t *p) {
  (void)p;
  each(t, lds_erf);
}

/* --- functions of two -------------------------------------------------------------------------------------------------------- */
/* A row of results; the distance of the next operand of each side, in elements. */
typedef void row_of(uint8_t *restrict y, const uint8_t *a, size_t a_stride, const uint8_t *b, size_t b_stride, size_t count);

/* extent[6], a_stride[6], b_stride[6]; y is row-major. */
static void broadcast(const lds_operand *t, const int32_t *p, row_of *row) {
  const int32_t *a_stride = p + LDS_RANK, *b_stride = p + 2 * LDS_RANK;
  const size_t columns = (size_t)p[LDS_RANK - 1];
  uint8_t *y = t[2].data;
  int32_t index[LDS_RANK] = {0};
  int axis = 0;
  while (axis >= 0) {
    size_t a = 0, b = 0;
    for (axis = 0; axis < LDS_RANK - 1; ++axis) {
      a += (size_t)index[axis] * (size_t)a_stride[axis];
      b += (size_t)index[axis] * (size_t)b_stride[axis];
    }
    row(y, t[0].data + a * sizeof(float), (size_t)a_stride[LDS_RANK - 1], t[1].data + b * sizeof(float), (size_t)b_stride[LDS_RANK - 1],
        columns);
    y += columns * sizeof(float);
    for (axis = LDS_RANK - 2; axis >= 0 && ++index[axis] == p[axis]; --axis) index[axis] = 0;
  }
}

/* One function of a and b; compilers vectorize it where both are rows, or b is one number. */
#define LDS_BINARY(name, value)                                                                                                        \
  static void name##_row(uint8_t *restrict y, const uint8_t *left, size_t a_stride, const uint8_t *right, size_t b_stride, size_t n) { \
    size_t k;                                                                                                                          \
    if (a_stride == 1 && b_stride == 1) {                                                                                              \
      for (k = 0; k < n; ++k) {                                                                                                        \
        const float a = lds_get_float(left, k), b = lds_get_float(right, k);                                                           \
        lds_put_float(y, k, value);                                                                                                    \
      }                                                                                                                                \
    } else if (a_stride == 1 && b_stride == 0) {                                                                                       \
      const float b = lds_get_float(right, 0);                                                                                         \
      for (k = 0; k < n; ++k) {                                                                                                        \
        const float a = lds_get_float(left, k);                                                                                        \
        lds_put_float(y, k, value);                                                                                                    \
      }                                                                                                                                \
    } else {                                                                                                                           \
      for (k = 0; k < n; ++k) {                                                                                                        \
        const float a = lds_get_float(left, k * a_stride), b = lds_get_float(right, k * b_stride);                                     \
        lds_put_float(y, k, value);                                                                                                    \
      }                                                                                                                                \
    }                                                                                                                                  \
  }                                                                                                                                    \
  void lds_##name##_float32(const lds_operand *t, const int32_t *p) { broadcast(t, p, name##_row); }

LDS_BINARY(add, a + b)
LDS_BINARY(subtract, a - b)
LDS_BINARY(multiply, a *b)
LDS_BINARY(divide, a / b)
LDS_BINARY(maximum, a > b || a != a ? a : b)
LDS_BINARY(minimum, a < b || a != a ? a : b)
LDS_BINARY(power, (float)lds_pow((double)a, (double)b))

/* --- sums -------------------------------------------------------------------------------------------------------------------- */
/* depth, inner: the sum starts at 0, in the order of the axis. */
void lds_sum_float32(const lds_operand *t, const int32_t *p) {
  const size_t depth = (size_t)p[0], inner = (size_t)p[1], elements = t[1].tensor.size_bytes / sizeof(float);
  size_t k, j;
  for (k = 0; k < elements; ++k) {
    const uint8_t *x = t[0].data + (k / inner * depth * inner + k % inner) * sizeof(float);
    float sum = 0.0f;
    for (j = 0; j < depth; ++j) sum += lds_get_float(x, j * inner);
    lds_put_float(t[1].data, k, sum);
  }
}

/* A row of the product: the sums start at 0, in the order of the rows of b. */
static void product_row(uint8_t *restrict y, const uint8_t *a, const uint8_t *b, size_t k, size_t n) {
  size_t i, j;
  for (j = 0; j < n; ++j) lds_put_float(y, j, 0.0f);
  for (i = 0; i < k; ++i) {
    const float factor = lds_get_float(a, i);
    for (j = 0; j < n; ++j) lds_put_float(y, j, lds_get_float(y, j) + factor * lds_get_float(b, i * n + j));
  }
}

/* m, k, n, a_shared, b_shared */
void lds_matmul_float32(const lds_operand *t, const int32_t *p) {
  const size_t m = (size_t)p[0], k = (size_t)p[1], n = (size_t)p[2], rows = t[2].tensor.size_bytes / sizeof(float) / n;
  size_t row;
  for (row = 0; row < rows; ++row) {
    const size_t batch = row / m;
    const uint8_t *a = t[0].data + (p[3] ? row % m : row) * k * sizeof(float);
    const uint8_t *b = t[1].data + (p[4] ? 0 : batch * k * n) * sizeof(float);
    product_row(t[2].data + row * n * sizeof(float), a, b, k, n);
  }
}

/* --- embedding --------------------------------------------------------------------------------------------------------------- */
/* One row of a table whose rows are in pieces, as weights in a device's blocks are: `together` rows have theirs side by side. */
static void gather_row(uint8_t *y, const uint8_t *x, size_t index, size_t run, size_t piece, size_t together) {
  const size_t begin = index / together * ((run + piece - 1u) / piece) * together + index % together;
  size_t k;
  for (k = 0; k * piece < run; ++k) {
    const size_t left = run - k * piece;
    memcpy(y + k * piece, x + (begin + k * together) * piece, left < piece ? left : piece);
  }
}

/* extent, inner: an index outside the axis is replaced by the nearest one inside. A row-major row is one piece. */
void lds_gather(const lds_operand *t, const int32_t *p) {
  const size_t wide = lds_element_bytes(t[1].tensor.dtype), count = t[1].tensor.size_bytes / wide;
  const size_t run = (size_t)p[1] * lds_element_bytes(t[0].tensor.dtype), outer = t[2].tensor.size_bytes / (count * run);
  const size_t piece = t[0].tensor.layout == LDS_BLOCKED ? t[0].tensor.channel_block * lds_element_bytes(t[0].tensor.dtype) : run;
  const size_t together = t[0].tensor.layout == LDS_BLOCKED ? t[0].tensor.batch_block : 1u;
  size_t k, at;
  for (k = 0; k < outer; ++k) {
    for (at = 0; at < count; ++at) {
      int64_t index;
      if (wide == sizeof index) {
        memcpy(&index, t[1].data + at * wide, sizeof index);
      } else {
        index = lds_i32(lds_u32(t[1].data + at * wide));
      }
      index = index < 0 ? 0 : index >= p[0] ? p[0] - 1 : index;
      gather_row(t[2].data + (k * count + at) * run, t[0].data + k * (size_t)p[0] * run, (size_t)index, run, piece, together);
    }
  }
}

const lds_operator_set lds_real_operators = {
    lds_real_step_check,
    {NULL,
     lds_copy,
     lds_fill,
     lds_pack,
     lds_unpack,
     lds_quantize,
     lds_dequantize,
     lds_lookup,
     lds_softmax_int8,
     lds_softmax_float32,
     lds_argmax,
     lds_exp_float32,
     lds_log_float32,
     lds_sqrt_float32,
     lds_rsqrt_float32,
     lds_tanh_float32,
     lds_sigmoid_float32,
     lds_erf_float32,
     lds_add_float32,
     lds_subtract_float32,
     lds_multiply_float32,
     lds_divide_float32,
     lds_maximum_float32,
     lds_minimum_float32,
     lds_power_float32,
     lds_sum_float32,
     lds_matmul_float32,
     lds_gather},
    NULL,
};

void lds_session_config_real(lds_session_config *config) { config->operators = &lds_real_operators; }
