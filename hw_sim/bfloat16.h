// bfloat16: the upper half of a float32.
//
// In:   the bits of a number.
// Out:  the bits of the converted one, rounded to nearest even; NaN becomes 0x7fc0, as in graph/bfloat16.py.
// Next: exec_memory.cc widens the tiles of a LOAD and rounds those of a STORE.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cfenv>
#include <cstdint>
#include <cstring>

namespace lds::sim {

inline uint16_t nearest_bfloat16(uint32_t float_bits) {
  const uint32_t nearest = (float_bits + 0x7fffu + (float_bits >> 16 & 1u)) >> 16;
  return static_cast<uint16_t>((float_bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : nearest);
}

inline uint32_t widened_bits(uint16_t bits) { return uint32_t{bits} << 16; }

inline float widened(uint16_t bits) {
  const uint32_t wide = widened_bits(bits);
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// The upper half of a float32 whose lower half is zero: the inverse of widened().
inline void put_bfloat16(uint8_t *to, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  to[0] = static_cast<uint8_t>(bits >> 16);
  to[1] = static_cast<uint8_t>(bits >> 24);
}

// While this object lives, the processor's arithmetic follows IEEE 754: a library that was linked with fast mathematics may have set
// this thread to treat subnormal numbers as zero.
class IeeeArithmetic {
 public:
  explicit IeeeArithmetic(bool wanted) : wanted_(wanted) {
    if (wanted_ && (std::fegetenv(&before_) != 0 || std::fesetenv(FE_DFL_ENV) != 0)) wanted_ = false;
  }
  ~IeeeArithmetic() {
    if (wanted_) (void)std::fesetenv(&before_);
  }
  IeeeArithmetic(const IeeeArithmetic &) = delete;
  IeeeArithmetic &operator=(const IeeeArithmetic &) = delete;

 private:
  bool wanted_;
  std::fenv_t before_{};
};

}  // namespace lds::sim
