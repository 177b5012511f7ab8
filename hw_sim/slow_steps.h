// How long the steps of RQ and MUL take: their results come late, and a step that needs one waits.
//
// In:   the loops of an instruction, the constants.
// Out:  cycles of all its steps, without the overhead of the instruction.
// Next: run.cc counts them while the micro-ops are there; timing.cc uses them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "constants.h"
#include "machine.h"

namespace lds::sim {

inline bool is_slow(const lds_insn_alu &i) { return i.alu_op == LDS_ALU_RQ || i.alu_op == LDS_ALU_MUL; }

class SlowSteps {
 public:
  explicit SlowSteps(const TimingConstants &c) : c_(c) {}

  uint64_t cycles(const Machine &m, const lds_insn_alu &insn);

 private:
  // RQ where no result is waited for: steps whose src is not that of the step before, counted without a loop over the steps.
  static uint64_t moves_of_src(const Loops &loops);
  uint64_t walk(const Machine &m, const Loops &loops, bool requantizes, bool tensor, uint64_t step);

  const TimingConstants &c_;
  std::vector<uint64_t> ready_;  // by tile of ACC: when a step can read it
  uint64_t now_ = 0;             // behind all instructions so far
};

}  // namespace lds::sim
