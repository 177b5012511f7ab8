// The cache of a program that ran before: its decoded instructions, and its cycles.
//
// In:   the current bytes of a stream; everything that cycles depend on.
// Out:  the result that decoding and timing it again would have, at the cost of comparing bytes.
// Next: api.cc looks here before it does either; run.cc counts the steps of RQ and MUL with slow_steps.h.
//
// Every dependency is compared: if one bit of the stream, a micro-op or a region differs, all is computed again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lds_sim.h"
#include "program.h"
#include "slow_steps.h"
#include "timing.h"

namespace lds::sim {

class Known {
 public:
  uint64_t address = 0;  // bus address of the stream
  uint32_t count = 0;
  std::vector<uint8_t> bytes;  // a copy, so that the checked instructions run even if the program overwrites its own stream
  Program program;
  SlowLog slow;

  // Fills in the fields of *result that depend on time; false: they are not known.
  bool recall(const TimingInput &input, lds_sim_result *result) const;
  // Records the cycles of a run without an error.
  void remember(const TimingInput &input, const lds_sim_result &result);

 private:
  bool timed_ = false;
  uint64_t cycle_limit_ = 0;
  Region regions_[LDS_MAX_REGIONS];
  uint32_t done_[3] = {};
  std::vector<uint64_t> slow_step_cycles_;
  lds_sim_result result_{};
};

// The programs of a few models.
class KnownPrograms {
 public:
  // The program at this address; nullptr: there is none.
  Known *find(uint64_t address, uint32_t count);
  // An entry to be filled. It may replace the oldest; a program that is too large to be kept is dropped at the next call.
  Known *add(uint64_t address, uint32_t count);
  void clear() { programs_.clear(); }

 private:
  static constexpr size_t kMost = 16;
  static constexpr uint32_t kMostInsns = 1u << 18;

  std::vector<std::unique_ptr<Known>> programs_;
};

}  // namespace lds::sim
