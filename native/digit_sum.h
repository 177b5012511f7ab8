// Digits of an accumulator times multipliers.
//
// In:   a candidate's multipliers, and the operations on an accumulator before it is split.
// Out:  the sum of products, as the device computes it.
// Next: rescale_search.cc, rescale_stairs.cc.
// SPDX-License-Identifier: Apache-2.0
#ifndef LDS_DIGIT_SUM_H
#define LDS_DIGIT_SUM_H

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lds::rescale {

inline int64_t shifted(int64_t x, int64_t left) { return x * (int64_t{1} << left); }

inline int64_t nearest(double real) { return static_cast<int64_t>(std::nearbyint(real)); }

// Two or three signed base-256 digits; the last one takes the rest, held to a byte as the device does it. Their number
// is a template parameter, because nearly all of a search's time is spent here.
template <size_t kDigits>
struct DigitSum {
  static constexpr size_t count = kDigits;
  int64_t offset, left;
  std::array<int64_t, 3> multipliers;

  int64_t split(int64_t acc) const { return shifted(acc + offset, left); }

  int64_t operator()(int64_t acc) const {
    int64_t x = split(acc), total = 0;
    for (size_t digit = 0; digit + 1 < kDigits; ++digit) {
      total += multipliers[digit] * (((x + 128) & 255) - 128);
      x = (x + 128) >> 8;
    }
    return total + multipliers[kDigits - 1] * std::clamp<int64_t>(x, -128, 127);
  }
};

}  // namespace lds::rescale

#endif  // LDS_DIGIT_SUM_H
