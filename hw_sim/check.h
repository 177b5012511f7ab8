// Detect races and reads of uninitialised memory, which hardware does not report.
//
// In:   each instruction as it runs, with the tokens it pops and pushes.
// Out:  findings.
// Next: api.cc returns them; vta/simulator/sim.py adds the instructions' text.
//
// A race: two stages access the same tile or the same bytes of DRAM, one of them writes, and no chain of tokens orders the two
// accesses. Tokens alone decide this, by vector clocks: a token carries the clock of its pusher. Time plays no part, so that a program
// without findings computes the same on hardware of any speed. The result is exact: because a stage executes in order, its latest
// access to a tile stands for all earlier ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "interval_map.h"
#include "lds_sim.h"
#include "machine.h"
#include "run.h"

namespace lds::sim {

// The number of instructions of each stage that are known to be complete.
using Clock = std::array<uint32_t, 3>;

// The latest access of one stage: its number in the stage's order (from 1; 0: none yet), and the instruction.
struct Access {
  uint32_t place = 0, insn = 0;
};

class Checker : public Observer {
 public:
  Checker(const Machine &m, bool races, bool uninitialised);

  // Starts a new run: there are no accesses yet, but memory that was written remains initialised.
  void begin(bool races, bool uninitialised, uint64_t stream_begin, uint64_t stream_end);
  void forget_writes();

  void before(uint32_t index, const Insn &insn) override;

  const std::vector<lds_sim_finding> &findings() const { return findings_; }
  uint32_t count() const { return count_; }

 private:
  // INP and WGT are written by the load stage and read by compute; ACC is written by compute and read by store. (Only compute uses UOP.)
  // INP is also written by the store stage: the second of the writes.
  struct Tile {
    std::array<Access, 2> write;
    Access read;
    bool written = false;
  };

  void take_tokens(int stage, const lds_insn_flags &flags);
  void give_tokens(int stage, const lds_insn_flags &flags);
  void load(const lds_insn_memory &insn);
  void store(const lds_insn &insn);
  void read_operands(const lds_insn_store &insn);
  void gemm(const lds_insn_gemm &insn);
  void depthwise(const lds_insn_depthwise &insn);
  void alu(const lds_insn_alu &insn);

  void read_tile(uint32_t memory, uint32_t tile);
  void write_tile(uint32_t memory, uint32_t tile);
  void race_with(uint32_t memory, int stage, const Access &other, uint32_t writes, uint32_t tile);
  void read_dram(uint64_t begin, uint64_t end);
  void write_dram(uint64_t begin, uint64_t end);

  bool ordered(int stage, const Access &access) const {
    return access.place <= clock_[static_cast<size_t>(stage_)][static_cast<size_t>(stage)];
  }
  Access here() const { return {clock_[static_cast<size_t>(stage_)][static_cast<size_t>(stage_)], insn_}; }
  void found(uint32_t kind, uint32_t memory, uint32_t other, uint32_t writes, uint64_t first, uint64_t count);
  void report();

  const Machine &m_;
  bool races_, uninitialised_;
  uint64_t stream_begin_ = 0, stream_end_ = 0;

  int stage_ = 0;  // of the running instruction
  uint32_t insn_ = 0;
  std::array<Clock, 3> clock_{};
  std::deque<Clock> tokens_[kTokenQueues + 1];

  std::vector<Tile> tiles_[4];  // by LDS_MEMORY_*, up to ACC
  IntervalMap<Access> stores_;
  IntervalMap<Access> loads_[2];  // by the load stage, by compute

  std::map<std::array<uint32_t, 4>, lds_sim_finding> pending_;  // of the running instruction: kind, memory, other, writes
  std::vector<lds_sim_finding> findings_;
  uint32_t count_ = 0;
};

}  // namespace lds::sim
