/* Sums and exponentials of rows, in one order. Private to runtime/.
 *
 * In:   floats at any alignment.
 * Out:  the same bits on every machine with IEEE arithmetic, vectors or not (-ffp-contract=off).
 * Next: operators_rows.c, operators_cache.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_OPERATORS_ROWS_H
#define LDS_OPERATORS_ROWS_H

#include "operators.h"

enum { LDS_LANES = 8 };

/* The lanes of a sum, as a tree. */
static inline float lds_sum_of_lanes(const float *lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* sum a[k] * b[k]: lane j begins at 0 and adds the products of j, j + 8, j + 16 ... in their order; then the tree. */
static inline float lds_sum_of_products(const uint8_t *a, const uint8_t *b, size_t count) {
  const size_t whole = count / LDS_LANES * LDS_LANES;
  float lane[LDS_LANES] = {0};
  size_t k, j;
  for (k = 0; k < whole; k += LDS_LANES) {
    for (j = 0; j < LDS_LANES; ++j) lane[j] += lds_get_float(a, k + j) * lds_get_float(b, k + j);
  }
  for (k = whole; k < count; ++k) lane[k - whole] += lds_get_float(a, k) * lds_get_float(b, k);
  return lds_sum_of_lanes(lane);
}

/* e^x, within 1e-7 of it where that is a normal number; 0 below, infinity above. x is clamped to 200 on either side as bits: a comparison
 * of floats is a branch for compilers that respect what is no number. */
static inline float lds_row_exp(float x) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to integers, half to even */
  uint32_t bits, size;
  float shifted, whole, r, e, scale;
  int32_t n;
  memcpy(&bits, &x, sizeof bits);
  size = bits & 0x7FFFFFFFu;
  size = ((size > 0x43480000u) & (size <= 0x7F800000u)) != 0 ? 0x43480000u : size;
  bits = (bits & 0x80000000u) | size;
  memcpy(&x, &bits, sizeof x);
  shifted = x * 1.44269504f + magic;
  whole = shifted - magic;
  r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  e = 1.9875691500e-4f;
  e = e * r + 1.3981999507e-3f;
  e = e * r + 8.3334519073e-3f;
  e = e * r + 4.1665795894e-2f;
  e = e * r + 1.6666665459e-1f;
  e = e * r + 5.0000001201e-1f;
  e = e * (r * r) + r + 1.0f;
  memcpy(&n, &shifted, sizeof n);
  n = n > 0x4B400000 + 128 ? 0x4B400000 + 128 : n; /* what is no number: any factor */
  n = n < 0x4B400000 - 127 ? 0x4B400000 - 127 : n;
  bits = (uint32_t)(n - 0x4B400000 + 127) << 23;
  memcpy(&scale, &bits, sizeof scale);
  return e * scale;
}

#endif /* LDS_OPERATORS_ROWS_H */
