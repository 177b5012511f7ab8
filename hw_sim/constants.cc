// Implementation of constants.h.
// SPDX-License-Identifier: Apache-2.0
#include "constants.h"

#include <cstring>

namespace lds::sim {
namespace {

struct Entry {
  const char *name;
  int64_t TimingConstants::*field;
};

constexpr Entry kEntries[] = {
#define LDS_ENTRY(name, value) {#name, &TimingConstants::name},
    LDS_TIMING_CONSTANTS(LDS_ENTRY)
#undef LDS_ENTRY
};

}  // namespace

bool set_constant(TimingConstants *constants, const char *name, int64_t value) {
  for (const Entry &entry : kEntries)
    if (std::strcmp(entry.name, name) == 0) {
      constants->*entry.field = value;
      return true;
    }
  return false;
}

}  // namespace lds::sim
