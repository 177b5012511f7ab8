/* Host operators on float32: quantize, dequantize, softmax.
 *
 * In:   operands and parameters that lds_step_check accepted.
 * Out:  the output's bytes, as defined in FORMAT.md.
 * Next: nothing.
 *
 * There is no libm: rounding works on integers, and exp is a polynomial. Every float is accepted, also infinity and NaN.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

/* Nearest integer of v in [-2^30, 2^30]; a tie goes to even, or away from zero. Without a branch, which a processor would mispredict for
 * every second number: twice the rest is 1 from a tie on, and where a tie is cut off, slightly less than twice is 1 above it. */
static int32_t round_float(float v, int half_to_even) {
  const int32_t whole = (int32_t)v;
  const float rest = v - (float)whole; /* exact */
  return whole + (int32_t)(rest * ((whole & 1) < half_to_even ? 0x1.fffffep0f : 2.0f));
}

/* half_to_even, low, high. Limits are integers below 2^9: clamping before rounding gives the same. */
void lds_quantize(const lds_operand *t, const int32_t *p) {
  const int32_t zero_point = t[1].tensor.zero_point;
  const float scale = t[1].tensor.scale, low = (float)(p[1] - zero_point), high = (float)(p[2] - zero_point);
  const int half_to_even = p[0];
  const size_t elements = t[1].tensor.size_bytes;
  const uint8_t *const x = t[0].data;
  uint8_t *const y = t[1].data;
  size_t k;
  for (k = 0; k < elements; ++k) {
    float v = lds_get_float(x, k) / scale;
    v = v > low ? v : low; /* also where v is not a number */
    v = v < high ? v : high;
    y[k] = (uint8_t)(round_float(v, half_to_even) + zero_point);
  }
}

/* 33 bits, rounded once, because the compiler's function for 64 bits has half a KiB on Arm. A number of more than 32 bits is halved first:
 * it has more bits than a float, and the lowest one only decides on which side of a tie the number is. */
static float float_of(int64_t q) {
  const int64_t odd = q & 1;
  if (q == (int32_t)q) return (float)(int32_t)q;
  return (float)(int32_t)((q - odd) / 2 | odd) * 2.0f;
}

void lds_dequantize(const lds_operand *t, const int32_t *p) {
  const lds_tensor *in = &t[0].tensor;
  const size_t elements = t[1].tensor.size_bytes / sizeof(float);
  size_t k;
  (void)p;
  for (k = 0; k < elements; ++k) {
    int64_t q = in->dtype == LDS_INT32  ? lds_i32(lds_u32(t[0].data + 4u * k))
                : in->dtype == LDS_INT8 ? (int32_t)(t[0].data[k] ^ 0x80u) - 128
                                        : (int32_t)t[0].data[k];
    q -= in->zero_point;
    lds_put_float(t[1].data, k, float_of(q) * in->scale);
  }
}

/* exp(x) for x <= 0: 2^n * exp(r), |r| <= ln 2 / 2, a polynomial of degree 6. Below -87 it is 0; NaN stays NaN. */
static float exp_negative(float x) {
  const float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  float r, sum;
  uint32_t bits;
  int32_t n;
  if (x < -87.0f) return 0.0f;
  if (!(x <= 0.0f)) return x; /* NaN: the whole row becomes NaN */
  n = round_float(x * log2_e, 0);
  r = x - (float)n * ln2_high - (float)n * ln2_low;
  sum = 1.0f / 720.0f;
  sum = sum * r + 1.0f / 120.0f;
  sum = sum * r + 1.0f / 24.0f;
  sum = sum * r + 1.0f / 6.0f;
  sum = sum * r + 0.5f;
  sum = sum * r * r + r + 1.0f;
  memcpy(&bits, &sum, sizeof bits);
  bits += (uint32_t)n << 23; /* times 2^n: n in [-126, 0], so the exponent stays in range */
  memcpy(&sum, &bits, sizeof sum);
  return sum;
}

/* depth */
void lds_softmax_float32(const lds_operand *t, const int32_t *p) {
  const size_t elements = t[1].tensor.size_bytes / sizeof(float), depth = (size_t)p[0];
  size_t row, k;
  for (row = 0; row < elements; row += depth) {
    float largest = lds_get_float(t[0].data, row), sum = 0.0f;
    for (k = row; k < row + depth; ++k) {
      const float x = lds_get_float(t[0].data, k);
      if (x > largest) largest = x;
    }
    for (k = row; k < row + depth; ++k) {
      const float e = exp_negative(lds_get_float(t[0].data, k) - largest);
      lds_put_float(t[1].data, k, e);
      sum += e;
    }
    for (k = row; k < row + depth; ++k) lds_put_float(t[1].data, k, lds_get_float(t[1].data, k) / sum);
  }
}
