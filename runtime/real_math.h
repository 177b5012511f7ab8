/* Functions of real numbers without libm: the same bytes on every machine.
 *
 * In:   numbers of any kind.
 * Out:  the function in IEEE double, by the four operations in the order that is written here (-ffp-contract=off).
 * Next: operators_real.c rounds it to float once; C that the compiler writes for a step carries the functions that it calls
 *       (python/loadstone/relax/c_math.py reads them here).
 *
 * libm's functions differ between glibc, newlib and their versions in the last place, and a firmware may have none.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_REAL_MATH_H
#define LDS_REAL_MATH_H

#include <stdint.h>

static inline double lds_bits(uint64_t bits) {
  union {
    uint64_t bits;
    double value;
  } u;
  u.bits = bits;
  return u.value;
}

static inline uint64_t lds_to_bits(double value) {
  union {
    uint64_t bits;
    double value;
  } u;
  u.value = value;
  return u.bits;
}

static inline float lds_from_half(uint16_t half) {
  const uint32_t rest = half & 0x7FFFu;
  union {
    uint32_t bits;
    float value;
  } u;
  if (rest >= 0x7C00u) {
    u.bits = 0x7F800000u | (rest & 0x3FFu) << 13;
  } else if (rest >= 0x400u) {
    u.bits = (rest << 13) + 0x38000000u;
  } else {
    u.value = (float)rest * 0x1p-24f;
  }
  u.bits |= (uint32_t)(half & 0x8000u) << 16;
  return u.value;
}

/* To nearest, half to even. */
static inline uint16_t lds_to_half(float value) {
  union {
    uint32_t bits;
    float value;
  } u;
  uint32_t sign;
  u.value = value;
  sign = u.bits >> 16 & 0x8000u;
  u.bits &= 0x7FFFFFFFu;
  if (u.bits > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);
  if (u.bits >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u);
  if (u.bits < 0x38800000u) { /* multiples of 2^-24 */
    u.value = u.value * 0x1p24f + 0x1p23f;
    return (uint16_t)(sign | (u.bits & 0xFFFFu));
  }
  u.bits += 0xFFFu + (u.bits >> 13 & 1u) - 0x38000000u;
  return (uint16_t)(sign | u.bits >> 13);
}

static inline double lds_fabs(double x) { return x < 0.0 ? -x : x; }

static inline double lds_trunc(double x) {
  double whole;
  if (!(x > -0x1p52 && x < 0x1p52)) return x;
  whole = (double)(int64_t)x;
  return whole == 0.0 && x < 0.0 ? -0.0 : whole;
}

static inline double lds_floor(double x) {
  const double whole = lds_trunc(x);
  return whole > x ? whole - 1.0 : whole;
}

static inline double lds_ceil(double x) {
  const double whole = lds_trunc(x);
  return whole < x ? whole + 1.0 : whole;
}

/* Ties to even. */
static inline double lds_rint(double x) {
  const double below = lds_floor(x), rest = x - below;
  double whole = rest > 0.5 ? below + 1.0 : below;
  if (rest == 0.5) whole = lds_trunc(below * 0.5) * 2.0 == below ? below : below + 1.0;
  return whole == 0.0 && x < 0.0 ? -0.0 : whole;
}

static inline double lds_exp(double x) {
  static const double term[] = {0x1.0000000000000p+0,  0x1.0000000000000p+0,  0x1.0000000000000p-1,  0x1.5555555555555p-3,
                                0x1.5555555555555p-5,  0x1.1111111111111p-7,  0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-13,
                                0x1.a01a01a01a01ap-16, 0x1.71de3a556c734p-19, 0x1.27e4fb7789f5cp-22, 0x1.ae64567f544e4p-26,
                                0x1.1eed8eff8d898p-29, 0x1.6124613a86d09p-33};
  double k, r, sum = 0.0;
  int n;
  if (x != x) return x;
  if (x > 709.0) return lds_bits(0x7FF0000000000000u);
  if (x < -708.0) return 0.0;
  k = lds_rint(x * 0x1.71547652b82fep+0);
  r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  for (n = 13; n >= 0; --n) sum = sum * r + term[n];
  return sum * lds_bits((uint64_t)((int64_t)k + 1023) << 52);
}

static inline double lds_log(double x) {
  static const double term[] = {0x1.0000000000000p+0, 0x1.5555555555555p-2, 0x1.999999999999ap-3, 0x1.2492492492492p-3,
                                0x1.c71c71c71c71cp-4, 0x1.745d1745d1746p-4, 0x1.3b13b13b13b14p-4, 0x1.1111111111111p-4,
                                0x1.e1e1e1e1e1e1ep-5, 0x1.af286bca1af28p-5, 0x1.8618618618618p-5};
  uint64_t bits;
  double m, s, sum = 0.0;
  int64_t k = 0;
  int n;
  if (x != x || x < 0.0) return lds_bits(0x7FF8000000000000u);
  if (x == 0.0) return lds_bits(0xFFF0000000000000u);
  if (x > 0x1.fffffffffffffp+1023) return x;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  bits = lds_to_bits(x);
  k += (int64_t)(bits >> 52) - 1023;
  m = lds_bits((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ++k;
  }
  s = (m - 1.0) / (m + 1.0);
  for (n = 10; n >= 0; --n) sum = sum * (s * s) + term[n];
  return (double)k * 0x1.62e42fefa39efp-1 + 2.0 * s * sum;
}

static inline double lds_sqrt(double x) {
  double root;
  int n;
  if (x != x || x < 0.0) return lds_bits(0x7FF8000000000000u);
  if (x == 0.0 || x > 0x1.fffffffffffffp+1023) return x;
  root = lds_bits((lds_to_bits(x) >> 1) + 0x1FF8000000000000u);
  for (n = 0; n < 6; ++n) root = 0.5 * (root + x / root);
  return root;
}

static inline double lds_tanh(double x) {
  const double a = lds_fabs(x);
  double e;
  if (!(a < 22.0)) return x != x ? x : x < 0.0 ? -1.0 : 1.0;
  if (a < 0x1p-10) return x - x * x * x * 0x1.5555555555555p-2;
  e = lds_exp(2.0 * a);
  e = (e - 1.0) / (e + 1.0);
  return x < 0.0 ? -e : e;
}

/* Below 2.5 a series whose terms have one sign, above it the continued fraction of erfc. */
static inline double lds_erf(double x) {
  const double a = lds_fabs(x);
  double term = a, sum = a, rest = 0.0;
  int n;
  if (x != x) return x;
  if (a > 6.0) return x < 0.0 ? -1.0 : 1.0;
  if (a < 2.5) {
    for (n = 1; n < 60; ++n) {
      term *= 2.0 * a * a / (double)(2 * n + 1);
      sum += term;
    }
    sum *= 0x1.20dd750429b6dp+0 * lds_exp(-a * a);
  } else {
    for (n = 60; n > 0; --n) rest = 0.5 * (double)n / (a + rest);
    sum = 1.0 - lds_exp(-a * a) * 0x1.20dd750429b6dp-1 / (a + rest);
  }
  return x < 0.0 ? -sum : sum;
}

static inline double lds_pow(double x, double y) {
  const int whole = lds_trunc(y) == y, odd = whole && lds_trunc(y * 0.5) * 2.0 != y;
  double power;
  if (y == 0.0 || x == 1.0) return 1.0;
  if (x != x || y != y) return x != x ? x : y;
  if (x < 0.0 && !whole && x - x == 0.0) return lds_bits(0x7FF8000000000000u);
  if (y == 2.0) return x * x;
  power = lds_exp(y * lds_log(x < 0.0 ? -x : x));
  return x < 0.0 && odd ? -power : power;
}

/* Quarter turns are taken off in two parts, exact up to 2^20; what is larger is not a number. */
static inline double lds_turned(double x, int quarters) {
  const double k = lds_rint(x * 0x1.45f306dc9c883p-1);
  const double r = (x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34;
  const unsigned turn = ((unsigned)(int64_t)k + (unsigned)quarters) & 3u;
  double sum = 1.0, power;
  int n;
  if ((turn & 1u) != 0) {
    for (n = 18; n > 0; n -= 2) sum = 1.0 - sum * (r * r) / (double)(n * (n - 1));
    power = sum;
  } else {
    for (n = 19; n > 1; n -= 2) sum = 1.0 - sum * (r * r) / (double)(n * (n - 1));
    power = sum * r;
  }
  return turn > 1u ? -power : power;
}

static inline double lds_sin(double x) { return x > -0x1p20 && x < 0x1p20 ? lds_turned(x, 0) : lds_bits(0x7FF8000000000000u); }

static inline double lds_cos(double x) { return x > -0x1p20 && x < 0x1p20 ? lds_turned(x, 1) : lds_bits(0x7FF8000000000000u); }

static inline double lds_atan(double x) {
  double a = lds_fabs(x), sum = 0.0, angle = 0.0;
  const int inverse = a > 1.0;
  int n;
  if (x != x) return x;
  if (inverse) a = 1.0 / a;
  for (n = 0; n < 2; ++n) a = a / (1.0 + lds_sqrt(1.0 + a * a));
  for (n = 31; n > 0; n -= 2) sum = 1.0 / (double)n - sum * (a * a);
  angle = 4.0 * a * sum;
  if (inverse) angle = 0x1.921fb54442d18p+0 - angle;
  return x < 0.0 ? -angle : angle;
}

static inline double lds_sigmoid(double x) { return 1.0 / (1.0 + lds_exp(-x)); }

static inline double lds_rsqrt(double x) { return 1.0 / lds_sqrt(x); }

static inline double lds_fmod(double x, double y) {
  double a = lds_fabs(x), b = lds_fabs(y), part;
  if (!(a <= 0x1.fffffffffffffp+1023) || b != b || b == 0.0) return lds_bits(0x7FF8000000000000u);
  while (a >= b) {
    for (part = b; part <= a * 0.5; part *= 2.0) continue;
    a -= part;
  }
  return x < 0.0 ? -a : a;
}

/* Functions that are made of others. Small results are relatively as exact as large ones: where a sum with 1 would lose digits,
 * log1p and expm1 keep them; what rounding 1 + x and exp(x) loses is the same in both factors there (Kahan). */
static inline double lds_tan(double x) { return lds_sin(x) / lds_cos(x); }

static inline double lds_asin(double x) { return lds_atan(x / lds_sqrt((1.0 - x) * (1.0 + x))); }

static inline double lds_acos(double x) { return 2.0 * lds_atan(lds_sqrt((1.0 - x) / (1.0 + x))); }

static inline double lds_log1p(double x) {
  const double u = 1.0 + x;
  return u == 1.0 || u > 0x1.fffffffffffffp+1023 ? x : lds_log(u) * (x / (u - 1.0));
}

static inline double lds_expm1(double x) {
  const double u = lds_exp(x);
  if (u == 1.0 || x != x) return x;
  return u == 0.0 || u - u != 0.0 ? u - 1.0 : (u - 1.0) * (x / lds_log(u));
}

static inline double lds_sinh(double x) {
  const double t = lds_expm1(lds_fabs(x)), half = t > 0x1p60 ? 0.5 * t : 0.5 * (t + t / (t + 1.0));
  return x < 0.0 ? -half : half;
}

static inline double lds_cosh(double x) {
  const double e = lds_exp(lds_fabs(x));
  return 0.5 * e + 0.5 / e;
}

static inline double lds_asinh(double x) {
  const double a = lds_fabs(x), rest = a * a / (1.0 + lds_sqrt(a * a + 1.0));
  const double s = a > 0x1p60 ? lds_log1p(a) + 0x1.62e42fefa39efp-1 : lds_log1p(a + rest);
  return x < 0.0 ? -s : s;
}

static inline double lds_acosh(double x) {
  const double t = x - 1.0;
  if (x > 0x1p60) return lds_log1p(x) + 0x1.62e42fefa39efp-1;
  return x < 1.0 ? lds_bits(0x7FF8000000000000u) : lds_log1p(t + lds_sqrt(2.0 * t + t * t));
}

static inline double lds_atanh(double x) {
  const double a = lds_fabs(x), s = 0.5 * lds_log1p(2.0 * a / (1.0 - a));
  return x < 0.0 ? -s : s;
}

#endif /* LDS_REAL_MATH_H */
