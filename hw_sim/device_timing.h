// When one device fetches, starts and ends each instruction of its program: an event model of fetch, the three stages and their tokens.
//
// In:   a program that run.cc has executed; the cycles in which the bus lets its requests enter.
// Out:  the cycles of the program, busy and stall cycles, beats and bursts; an event for each instruction.
// Next: timing.cc runs it, alone or with the other devices of a bus. docs/timing.md explains the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bus.h"
#include "readers.h"
#include "run.h"
#include "timing.h"

namespace lds::sim {

struct Token {
  uint64_t cycle;
  uint32_t insn;
};

struct TokenTimes {
  std::vector<Token> pushed;
  size_t popped = 0;

  bool empty() const { return popped == pushed.size(); }
  Token front() const { return pushed[popped]; }
};

struct StageState {
  uint32_t position = 0;       // in its queue: the running instruction, or the next one
  uint32_t delivered = 0;      // instructions that fetch has put into the queue
  uint64_t free = 0;           // the cycle in which the previous instruction ended
  uint64_t follow = kNever;    // the first cycle in which a LOAD may start before that; kNever: in none
  std::vector<uint64_t> ends;  // ring buffer: of the previous instructions, as many as may run at a time
  bool loading = false;        // the running LOAD's end is not known yet
  lds_sim_event event{};       // of the running instruction
};

class DeviceTiming {
 public:
  DeviceTiming(const TimingInput &in, lds_sim_result *result, std::vector<lds_sim_event> *events, Bus *bus);

  // Fetch requests its first batch.
  void begin();

  bool works() const { return out_.status == LDS_ERROR_NONE && !finished_ && !is_over_; }

  // The cycle in which an instruction can start first, unless a read that is served before lets another start earlier; kNever: none can.
  uint64_t next_start();

  // That instruction starts.
  void start_next() { start(next_stage_, start_cycle_); }

  // The cycle in which one of the device's readers requests its next burst; kNever: none does.
  uint64_t next_request() const { return readers_.next_request(); }

  // Admits the request of highest priority at `cycle`. True when it is the last one of a reader, whose end is then known; and when the
  // program ends here.
  bool admit(uint64_t cycle);

  // Neither can an instruction start nor is anything read.
  void end();

  TimingOutcome outcome();

 private:
  bool has_next(int s) const { return stages_[s].position < in_.done[s]; }
  uint32_t next_insn(int s) const { return in_.program.queue[s][stages_[s].position]; }
  bool all_done() const;

  int earliest_start();
  uint64_t free_for(int s, const Insn &insn) const;
  uint32_t pop(bool wanted, int queue);
  void start(int s, uint64_t cycle);
  uint64_t write_wait(int s, const Insn &insn, uint64_t cycle);
  void finish(int s, uint64_t cycle);

  uint64_t duration(const Insn &insn);
  uint64_t store_cycles(const lds_insn &insn);
  Bursts bursts_of(const lds_insn_memory &i) const;

  void start_load(int s, uint64_t cycle, const lds_insn_memory &i);
  void finish_load(int s, uint64_t granted);

  void request_batch(uint64_t cycle);
  void deliver();

  bool over_limit(uint64_t cycle);
  uint32_t first_unfinished() const;
  void blocked();

  const TimingInput &in_;
  const TimingConstants &c_;
  const BusShape bus_shape_;
  lds_sim_result &r_;
  std::vector<lds_sim_event> *events_;
  TimingOutcome out_;

  StageState stages_[3];
  TokenTimes tokens_[kTokenQueues + 1];
  Readers readers_;
  Bus &bus_;
  std::vector<uint64_t> deliverable_;  // by instruction: the earliest cycle in which it can start
  std::vector<uint64_t> end_;          // by instruction: kNever until known
  int next_stage_ = -1;
  uint64_t start_cycle_ = kNever;
  uint64_t next_delivery_ = 0;
  uint32_t delivered_ = 0, batch_end_ = 0;
  size_t next_slow_ = 0;
  bool fetch_blocked_ = false, finished_ = false, is_over_ = false;
};

}  // namespace lds::sim
