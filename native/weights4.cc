// Finds multipliers, minima and numbers of 4 bits that give weights exactly.
//
//   weight = minimum + (number * multiplier + 4 >> 3)
//
// In:   groups of 32 int8 weights for each output.
// Out:  the bytes of groups; nothing where a group has no such form.
// Next: include/lds_weights4.h.
//
// The least and the largest weight of a group have some numbers a and a + s. For each s, 15 first, few multipliers give their difference;
// each is tried with every a. A group of random weights has more than 16 different ones, and is given up at once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>

#include "lds_weights4.h"

namespace lds::weights4 {
namespace {

constexpr int kWeights = 32, kNumbers = 16, kLeast = -128, kMost = 127;

struct Form {
  int multiplier, minimum;
  std::array<uint8_t, kMost - kLeast + 1> number;  // by weight - kLeast; only of those that the group has
};

int product(int number, int multiplier) { return (number * multiplier + 4) >> 3; }

// Whether every weight is one of the numbers first to first + span by this multiplier. weights: different ones, ascending.
bool fits(const int *weights, int count, int multiplier, int first, int span, Form *form) {
  const int begin = product(first, multiplier);
  const int minimum = weights[0] - begin;
  if (minimum < kLeast || product(first + span, multiplier) - begin != weights[count - 1] - weights[0]) return false;
  int number = first;
  for (int k = 0; k < count; ++k) {
    while (number < first + span && minimum + product(number, multiplier) < weights[k]) ++number;
    if (minimum + product(number, multiplier) != weights[k]) return false;
    form->number[static_cast<size_t>(weights[k] - kLeast)] = static_cast<uint8_t>(number);
  }
  form->multiplier = multiplier;
  form->minimum = minimum;
  return true;
}

bool find(const int *weights, int count, Form *form) {
  const int range = weights[count - 1] - weights[0];
  if (range == 0) return fits(weights, count, 0, 0, 0, form);
  for (int span = kNumbers - 1; span >= std::max(1, count - 1); --span)
    for (int multiplier = std::max(0, (8 * range - 8) / span); multiplier <= std::min(255, (8 * range + 8) / span); ++multiplier)
      for (int first = 0; first + span < kNumbers; ++first)
        if (fits(weights, count, multiplier, first, span, form)) return true;
  return false;
}

// The different weights of one output, ascending: at most 16, else 0.
int different(const int8_t *row, uint32_t block, int *weights) {
  std::array<bool, kMost - kLeast + 1> there{};
  const uint32_t tile = block * block;
  for (uint32_t k = 0; k < kWeights; ++k) there[static_cast<size_t>(row[k / block * tile + k % block] - kLeast)] = true;
  int count = 0;
  for (int w = kLeast; w <= kMost; ++w) {
    if (!there[static_cast<size_t>(w - kLeast)]) continue;
    if (count == kNumbers) return 0;
    weights[count++] = w;
  }
  return count;
}

bool pack_group(const int8_t *tiles, uint32_t block, uint8_t *bytes) {
  const uint32_t tile = block * block;
  uint8_t *const numbers = bytes + size_t{2} * block;
  for (uint32_t o = 0; o < block; ++o) {
    std::array<int, kNumbers> weights;
    Form form;
    const int count = different(tiles + size_t{o} * block, block, weights.data());
    if (count == 0 || !find(weights.data(), count, &form)) return false;
    bytes[o] = static_cast<uint8_t>(form.multiplier);
    bytes[block + o] = static_cast<uint8_t>(form.minimum);
    for (uint32_t k = 0; k < kWeights; k += 2) {
      const size_t place = size_t{k / block} * tile + size_t{o} * block + k % block;
      const uint8_t low = form.number[static_cast<size_t>(tiles[place] - kLeast)];
      const uint8_t high = form.number[static_cast<size_t>(tiles[place + 1] - kLeast)];
      numbers[place / 2] = static_cast<uint8_t>(low | high << 4);
    }
  }
  return true;
}

}  // namespace
}  // namespace lds::weights4

int lds_weights4(const int8_t *tiles, uint32_t groups, uint32_t block, uint8_t *bytes) {
  if (block != 4 && block != 8 && block != 16 && block != 32) return LDS_WEIGHTS4_BAD_ARGUMENT;
  for (uint32_t g = 0; g < groups; ++g, tiles += size_t{lds::weights4::kWeights} * block, bytes += size_t{18} * block)
    if (!lds::weights4::pack_group(tiles, block, bytes)) return LDS_WEIGHTS4_NONE;
  return LDS_WEIGHTS4_OK;
}
