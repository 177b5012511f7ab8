// The cycles of the steps of RQ and MUL: their results have a latency, and a step that needs one waits. Those of DEPTHWISE: a step takes a
// cycle for each row of its window that the step before did not read.
//
// In:   the loops of an instruction, the timing constants.
// Out:  the cycles of all its steps, without the overhead of the instruction.
// Next: run.cc counts them while the micro-ops are in the scratchpad; device_timing.cc uses them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "constants.h"
#include "machine.h"

namespace lds::sim {

inline bool is_slow(const lds_insn_alu &i) { return i.alu_op == LDS_ALU_RQ || i.alu_op == LDS_ALU_MUL; }

// Rows of INP that the steps of a DEPTHWISE read, one in each step at least.
uint64_t window_cycles(const Machine &m, const lds_insn_depthwise &insn);

// The RQ and MUL instructions of a run, in order, with their micro-ops: their cycles depend on nothing else.
class SlowLog {
 public:
  struct Item {
    Loops loops;  // their micro-ops are in the list below
    bool requantizes, tensor;
    uint64_t cycles;
    size_t first_uop;
  };

  // An item whose loops point to its micro-ops in the list.
  Loops loops_of(const Item &item) const;
  bool is_same(size_t index, const Loops &loops, bool requantizes, bool tensor) const;
  void add(const Loops &loops, bool requantizes, bool tensor, uint64_t cycles);
  // Forgets all from `index` on.
  void cut(size_t index);
  const std::vector<Item> &items() const { return items_; }

 private:
  static constexpr size_t kMostUops = size_t{1} << 20, kMostItems = size_t{1} << 18;

  std::vector<Item> items_;
  std::vector<Uop> uops_;
  bool full_ = false;
};

class SlowSteps {
 public:
  // log: of an earlier run, of the same program or not; it becomes that of this run. Its cycles are reused up to the first difference.
  SlowSteps(const TimingConstants &c, SlowLog *log) : c_(c), log_(log) {}

  uint64_t cycles(const Machine &m, const lds_insn_alu &insn);

 private:
  uint64_t count(const Machine &m, const Loops &loops, bool requantizes, bool tensor);
  // RQ where no step waits for a result: counts the steps whose src differs from that of the step before, without a loop over them.
  static uint64_t moves_of_src(const Loops &loops);
  uint64_t walk(const Machine &m, const Loops &loops, bool requantizes, bool tensor, uint64_t step);

  const TimingConstants &c_;
  SlowLog *log_;
  size_t next_ = 0;              // in the log
  bool known_ = true;            // the log equals this run so far
  std::vector<uint64_t> ready_;  // by tile of ACC: the cycle in which a step can read it
  uint64_t now_ = 0;             // the cycle after all instructions so far
};

}  // namespace lds::sim
