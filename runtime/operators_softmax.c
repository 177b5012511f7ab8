/* Softmax of int8 or uint8, bit for bit like TFLite's reference kernel: fixed point throughout.
 *
 * In:   operands and parameters that lds_step_check accepted.
 * Out:  the output's bytes, with scale 1/256; the zero point is the smallest value of the type.
 * Next: nothing.
 *
 * Qm.n: an int32 with m integer and n fraction bits, m + n = 31. A product is the rounded high half of the doubled product: Qa * Qb is
 * Q(a+b). All arithmetic wraps or saturates, so that hostile parameters give wrong numbers at worst.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

static int32_t wrap(int64_t v) { return lds_i32((uint32_t)(uint64_t)v); }

static int32_t add(int32_t a, int32_t b) { return wrap((int64_t)a + b); }

static int32_t saturate(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v; }

/* a * b / 2^31, to nearest, truncated toward zero after the nudge. */
static int32_t multiply(int32_t a, int32_t b) {
  const int64_t product = (int64_t)a * b;
  const int64_t nudge = product >= 0 ? (int64_t)1 << 30 : 1 - ((int64_t)1 << 30);
  return saturate((product + nudge) / ((int64_t)1 << 31));
}

/* v / 2^shift, to nearest, ties away from zero; shift up to 40. */
static int32_t divide_pot(int32_t v, uint32_t shift) {
  const uint64_t magnitude = v < 0 ? (uint64_t)(-(int64_t)v) : (uint64_t)v;
  const int32_t quotient = (int32_t)((magnitude + (((uint64_t)1 << shift) >> 1)) >> shift);
  return v < 0 ? -quotient : quotient;
}

/* v * 2^shift, saturating. */
static int32_t multiply_pot(int32_t v, uint32_t shift) { return saturate((int64_t)v * ((int64_t)1 << shift)); }

/* exp(a) in Q0.31 for a in Q0.31, a in [-1/4, 0): a Taylor polynomial around -1/8. */
static int32_t exp_quarter(int32_t a) {
  const int32_t exp_of_eighth = 1895147668, third = 715827883;
  const int32_t x = add(a, (int32_t)1 << 28), x2 = multiply(x, x), x3 = multiply(x2, x), x4 = multiply(x2, x2);
  const int32_t tail = divide_pot(add(multiply(add(divide_pot(x4, 2), x3), third), x2), 1);
  return add(exp_of_eighth, multiply(exp_of_eighth, add(x, tail)));
}

/* exp(a) in Q0.31 for a <= 0 in Q5.26: a polynomial for the remainder modulo 1/4, then one factor for each higher bit. */
static int32_t exp_negative(int32_t a) {
  static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242}; /* exp(-2^(k-2)) */
  const int32_t quarter = (int32_t)1 << 24, fraction = (int32_t)((uint32_t)a & (uint32_t)(quarter - 1)) - quarter;
  const uint32_t above = (uint32_t)fraction - (uint32_t)a;
  int32_t result = exp_quarter(multiply_pot(fraction, 5));
  unsigned k;
  if (a == 0) return INT32_MAX;
  for (k = 0; k < sizeof factors / sizeof factors[0]; ++k) {
    if ((above >> (24 + k) & 1u) != 0) result = multiply(result, factors[k]);
  }
  return result;
}

/* 1 / (1 + a) in Q0.31 for a in [0, 1) in Q0.31: three steps of Newton's method from 48/17 - 32/17 d, d = (1 + a) / 2. */
static int32_t one_over_one_plus(int32_t a) {
  const int32_t d = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
  int32_t x = add(1515870810, multiply(d, -1010580540)); /* Q2.29 */
  unsigned k;
  for (k = 0; k < 3; ++k) {
    const int32_t rest = add((int32_t)1 << 29, -multiply(d, x));
    x = add(x, multiply_pot(multiply(x, rest), 2));
  }
  return multiply_pot(x, 1);
}

static uint32_t leading_zeros(uint32_t v) {
  uint32_t n = 0;
  while ((v & 0x80000000u) == 0 && n < 32u) {
    v <<= 1;
    ++n;
  }
  return n;
}

typedef struct row_of {
  const uint8_t *x;
  uint8_t flip;
  int32_t largest;
  const int32_t *p;
} row_of;

/* exp of one element relative to the largest in Q0.31; -1: too small to count. */
static int32_t exp_at(const row_of *row, size_t k) {
  const int32_t difference = (row->x[k] ^ row->flip) - row->largest;
  if (difference < row->p[3]) return -1;
  return exp_negative(multiply(wrap((int64_t)difference * ((int64_t)1 << row->p[2])), row->p[1]));
}

static void softmax_row(const row_of *row, uint8_t *y) {
  const size_t depth = (size_t)row->p[0];
  uint32_t sum = 0, zeros; /* sum in Q12.19 */
  int32_t scale;
  size_t k;
  for (k = 0; k < depth; ++k) {
    const int32_t e = exp_at(row, k);
    if (e >= 0) sum += (uint32_t)divide_pot(e, 12);
  }
  zeros = leading_zeros(sum);
  scale = one_over_one_plus(lds_i32((zeros < 32u ? sum << zeros : 0u) - 0x80000000u));
  for (k = 0; k < depth; ++k) {
    const int32_t e = exp_at(row, k);
    const int32_t q = e < 0 ? 0 : divide_pot(multiply(scale, e), 35u - (zeros < 12u ? zeros : 12u));
    y[k] = (uint8_t)((uint32_t)(q < 0 ? 0 : q > 255 ? 255 : q) ^ row->flip);
  }
}

/* depth, multiplier, left_shift, diff_min */
void lds_softmax_int8(const lds_operand *t, const int32_t *p) {
  const size_t elements = t[0].tensor.size_bytes, depth = (size_t)p[0];
  row_of row;
  size_t start, k;
  row.flip = t[0].tensor.dtype == LDS_INT8 ? 0x80u : 0u;
  row.p = p;
  for (start = 0; start < elements; start += depth) {
    row.x = t[0].data + start;
    row.largest = 0;
    for (k = 0; k < depth; ++k) {
      if ((row.x[k] ^ row.flip) > row.largest) row.largest = row.x[k] ^ row.flip;
    }
    softmax_row(&row, t[1].data + start);
  }
}
