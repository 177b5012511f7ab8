// Executes a program: three queues, four counts of tokens.
//
// In:   a Machine, a Program.
// Out:  memory and scratchpads as the program leaves them; where and why it stopped; counters.
// Next: timing.cc says when each instruction ran.
//
// Of the instructions whose stage is free and whose tokens are there, the first in program order runs next: a program
// without races gives the same result in any order, and most programs are legal in their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lds_sim.h"
#include "machine.h"
#include "program.h"

namespace lds::sim {

// What pushes into queue q, and pops from it: tokens[q]. Stage s and its next: 2s forward, 2s + 1 back.
enum TokenQueue { kLoadToCompute = 0, kComputeToLoad = 1, kComputeToStore = 2, kStoreToCompute = 3, kTokenQueues = 4, kNoQueue = 4 };

// Queues of the four flags for each stage (kNoQueue where the stage has no such neighbour).
struct StageQueues {
  int pop_prev, pop_next, push_prev, push_next;
};
constexpr StageQueues kStageQueues[3] = {{kNoQueue, kComputeToLoad, kNoQueue, kLoadToCompute},
                                         {kLoadToCompute, kStoreToCompute, kComputeToLoad, kComputeToStore},
                                         {kComputeToStore, kNoQueue, kStoreToCompute, kNoQueue}};

// The stage that pushes into a token queue.
constexpr uint32_t kPusher[kTokenQueues + 1] = {LDS_STAGE_LOAD, LDS_STAGE_COMPUTE, LDS_STAGE_COMPUTE, LDS_STAGE_STORE, ~0u};

// Sees each instruction just before it runs, its tokens popped; may throw Stop. (check.h, strict.h)
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(uint32_t index, const Insn &insn) = 0;
};

struct RunControl {
  uint64_t cycle_limit = 0;  // steps of GEMM and ALU above it stop the run; 0: no limit
  std::atomic<uint32_t> *progress = nullptr;
  std::vector<Observer *> observers;
};

struct RunOutcome {
  uint32_t status = LDS_ERROR_NONE;
  uint32_t pc = 0;
  uint64_t address = 0;
  std::string message;
  uint32_t done[3] = {0, 0, 0};            // instructions completed, by stage
  std::vector<uint64_t> rq_operand_tiles;  // of each RQ: how often src moved, and new operands were read
  lds_sim_waiting waiting = {{~0u, ~0u, ~0u}, {0, 0, 0}};
};

// Fills the counters of *result that do not depend on time.
RunOutcome run_program(Machine &m, const Program &program, const RunControl &control, lds_sim_result *result);

}  // namespace lds::sim
