# SPDX-License-Identifier: Apache-2.0
"""Functions that are made of others: tangent, arc functions, hyperbolic ones and their inverses.

In:   nothing.
Out:  COMPOSED: definitions in C99, of doubles, beside those of c_math.py.
Next: c_math.py gives those that a text needs.

Small results are relatively as exact as large ones: where a sum with 1 would lose digits, log1p and
expm1 keep them.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COMPOSED"]

#: Name -> (what it needs, definition).
COMPOSED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "lds_tan": (
        ("lds_sin", "lds_cos"),
        "static inline double lds_tan(double x) { return lds_sin(x) / lds_cos(x); }",
    ),
    "lds_asin": (
        ("lds_atan", "lds_sqrt"),
        "static inline double lds_asin(double x) "
        "{ return lds_atan(x / lds_sqrt((1.0 - x) * (1.0 + x))); }",
    ),
    "lds_acos": (
        ("lds_atan", "lds_sqrt"),
        "static inline double lds_acos(double x) "
        "{ return 2.0 * lds_atan(lds_sqrt((1.0 - x) / (1.0 + x))); }",
    ),
    # What rounding 1 + x and exp(x) loses is the same in both factors (Kahan).
    "lds_log1p": (
        ("lds_log",),
        """\
static inline double lds_log1p(double x) {
  const double u = 1.0 + x;
  return u == 1.0 || u > 0x1.fffffffffffffp+1023 ? x : lds_log(u) * (x / (u - 1.0));
}""",
    ),
    "lds_expm1": (
        ("lds_exp", "lds_log"),
        """\
static inline double lds_expm1(double x) {
  const double u = lds_exp(x);
  if (u == 1.0 || x != x) return x;
  return u == 0.0 || u - u != 0.0 ? u - 1.0 : (u - 1.0) * (x / lds_log(u));
}""",
    ),
    "lds_sinh": (
        ("lds_expm1", "lds_fabs"),
        """\
static inline double lds_sinh(double x) {
  const double t = lds_expm1(lds_fabs(x)), half = t > 0x1p60 ? 0.5 * t : 0.5 * (t + t / (t + 1.0));
  return x < 0.0 ? -half : half;
}""",
    ),
    "lds_cosh": (
        ("lds_exp", "lds_fabs"),
        """\
static inline double lds_cosh(double x) {
  const double e = lds_exp(lds_fabs(x));
  return 0.5 * e + 0.5 / e;
}""",
    ),
    "lds_asinh": (
        ("lds_log1p", "lds_sqrt", "lds_fabs"),
        """\
static inline double lds_asinh(double x) {
  const double a = lds_fabs(x), rest = a * a / (1.0 + lds_sqrt(a * a + 1.0));
  const double s = a > 0x1p60 ? lds_log1p(a) + 0x1.62e42fefa39efp-1 : lds_log1p(a + rest);
  return x < 0.0 ? -s : s;
}""",
    ),
    "lds_acosh": (
        ("lds_log1p", "lds_sqrt", "lds_bits"),
        """\
static inline double lds_acosh(double x) {
  const double t = x - 1.0;
  if (x > 0x1p60) return lds_log1p(x) + 0x1.62e42fefa39efp-1;
  return x < 1.0 ? lds_bits(0x7FF8000000000000u) : lds_log1p(t + lds_sqrt(2.0 * t + t * t));
}""",
    ),
    "lds_atanh": (
        ("lds_log1p", "lds_fabs"),
        """\
static inline double lds_atanh(double x) {
  const double a = lds_fabs(x), s = 0.5 * lds_log1p(2.0 * a / (1.0 - a));
  return x < 0.0 ? -s : s;
}""",
    ),
}
