// The cache of a program that ran before: its decoded instructions, and its cycles.
//
// In:   the bytes of a stream as they stand now; everything that cycles depend on.
// Out:  the same as decoding and timing it again would give, for a comparison of bytes.
// Next: api.cc asks before it does either; run.cc counts the steps of RQ and MUL with slow_steps.h.
//
// Nothing is taken on trust: a stream that changed by a bit, a micro-op that another sample left otherwise, a region that moved, and all
// is found anew.
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
  uint64_t address = 0;  // where the stream stood
  uint32_t count = 0;
  std::vector<uint8_t> bytes;  // copied: what runs is what was checked, even if the program stores over it
  Program program;
  SlowLog slow;

  // Fills the fields of *result that depend on time; false: they are not known.
  bool recall(const TimingInput &input, lds_sim_result *result) const;
  // What a run without an error took.
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
  // The one that stood there; nullptr: none did.
  Known *find(uint64_t address, uint32_t count);
  // One to be filled; the oldest may go, and a program too large to be kept goes with the next.
  Known *add(uint64_t address, uint32_t count);
  void clear() { programs_.clear(); }

 private:
  static constexpr size_t kMost = 16;
  static constexpr uint32_t kMostInsns = 1u << 18;

  std::vector<std::unique_ptr<Known>> programs_;
};

}  // namespace lds::sim
