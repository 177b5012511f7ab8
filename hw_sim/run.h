// Execute a program: three queues of instructions, four counts of tokens.
//
// In:   a Machine, a Program.
// Out:  memory and scratchpads after the program; where and why it stopped; counters.
// Next: timing.cc computes when each instruction ran.
//
// Among the instructions at the heads of the queues whose tokens are available, the first in program order runs next. A program without
// races gives the same result in any order. The two other orders deviate from program order as far as tokens allow, one with loads
// early, the other with stores early: where a token is missing, one of them swaps the two accesses, as hardware of some speed would.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "constants.h"
#include "lds_sim.h"
#include "machine.h"
#include "program.h"
#include "slow_steps.h"

namespace lds::sim {

// Token queues are numbered as in lds_isa.h; LDS_QUEUES is the one that does not exist.
constexpr int kTokenQueues = LDS_QUEUES, kNoQueue = LDS_QUEUES;
constexpr int kPopPrev[3] = LDS_QUEUE_OF_POP_PREV, kPopNext[3] = LDS_QUEUE_OF_POP_NEXT;
constexpr int kPushPrev[3] = LDS_QUEUE_OF_PUSH_PREV, kPushNext[3] = LDS_QUEUE_OF_PUSH_NEXT;

// Queues of the four flags for each stage (kNoQueue where the stage has no such neighbour).
struct StageQueues {
  int pop_prev, pop_next, push_prev, push_next;
};
constexpr StageQueues queues_of(int stage) { return {kPopPrev[stage], kPopNext[stage], kPushPrev[stage], kPushNext[stage]}; }
constexpr StageQueues kStageQueues[3] = {queues_of(0), queues_of(1), queues_of(2)};

// The stage that pushes into a token queue.
constexpr uint32_t kPusher[kTokenQueues] = LDS_QUEUE_PUSHERS;

// Called for each instruction after its tokens are popped and before it runs; may throw Stop. (check.h, strict.h)
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(uint32_t index, const Insn &insn) = 0;
};

struct RunControl {
  TimingConstants constants;  // for the steps of RQ and MUL, which can be counted only while their micro-ops are in the scratchpad
  SlowLog *slow = nullptr;    // never nullptr in a run
  uint64_t cycle_limit = 0;   // steps of GEMM and ALU above it stop the run; 0: no limit
  int order = LDS_SIM_ORDER_PROGRAM;
  std::atomic<uint32_t> *progress = nullptr;
  std::vector<Observer *> observers;
};

struct RunOutcome {
  uint32_t status = LDS_ERROR_NONE;
  uint32_t pc = 0;
  uint64_t address = 0;
  std::string message;
  uint32_t done[3] = {0, 0, 0};            // instructions completed, by stage
  std::vector<uint64_t> slow_step_cycles;  // for each RQ, MUL and DEPTHWISE the cycles of its steps
  lds_sim_waiting waiting = {{~0u, ~0u, ~0u}, {0, 0, 0}};
};

// Fills in the counters of *result that do not depend on time.
RunOutcome run_program(Machine &m, const Program &program, const RunControl &control, lds_sim_result *result);

}  // namespace lds::sim
