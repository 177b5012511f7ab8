// bfloat16: the upper half of a float32.
//
// In:   bits.
// Out:  bits; rounded to nearest even, not a number becomes 0x7fc0, as in graph/bfloat16.py.
// Next: exec_memory.cc widens what LOAD brings and rounds what STORE takes.
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

// The upper half of a float32 that has no other: what widened() was given.
inline void put_bfloat16(uint8_t *to, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  to[0] = static_cast<uint8_t>(bits >> 16);
  to[1] = static_cast<uint8_t>(bits >> 24);
}

// The processor's arithmetic as IEEE 754 has it while this lives: a library that was linked with fast mathematics may have told this
// thread to take subnormal numbers for zero.
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
