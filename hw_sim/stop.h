// The reason for which a run stops before FINISH.
//
// In:   the error of an instruction.
// Out:  an exception with the status of the result and a message of one line.
// Next: run.cc catches it and adds the instruction's index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdarg>
#include <cstdint>
#include <string>

namespace lds::sim {

struct Stop {
  uint32_t status;       // LDS_ERROR_*
  uint64_t address = 0;  // bus address, for DRAM_BOUNDS and BUS
  std::string message;
};

// printf into a std::string.
__attribute__((format(printf, 1, 2))) std::string format(const char *pattern, ...);

}  // namespace lds::sim
