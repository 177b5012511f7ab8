// The cycles of a program, or of those of several devices on one bus.
//
// In:   a program that run.cc has executed, with the cycles of the steps of RQ and MUL; the device's constants.
// Out:  cycles, busy and stall cycles, beats and bursts; an event for each instruction.
// Next: device_timing.h has the model of each device, which docs/timing.md explains; api.cc calls this.
//
// The results of a program do not depend on time: values and times are computed in two passes. This one costs a few operations for
// each instruction and each burst.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "constants.h"
#include "lds_sim.h"
#include "machine.h"
#include "program.h"

namespace lds::sim {

struct TimingInput {
  const Geometry &geometry;
  const Region *regions;
  const TimingConstants &constants;
  uint32_t place_bytes;  // at worst: the memory of a LOAD or STORE may stand any multiple of it further on; 0: it stands where it is
  uint32_t bus_bits;
  const Program &program;
  const uint32_t *done;                           // by stage: the number of instructions that were executed
  const std::vector<uint64_t> &slow_step_cycles;  // for each executed RQ, MUL and DEPTHWISE, in order, the cycles of its steps
  uint64_t insn_address;                          // bus address of the stream
  uint32_t insn_count;                            // of the whole stream: fetch reads all of it
  uint64_t cycle_limit;
  Poll *poll;
};

struct TimingOutcome {
  uint32_t status = LDS_ERROR_NONE;  // DEADLOCK (a full queue blocks fetch), CYCLE_LIMIT or ABORTED
  uint32_t pc = 0;
  std::string message;
};

// Fills in the fields of *result that depend on time; appends to *events unless it is nullptr.
TimingOutcome time_program(const TimingInput &input, lds_sim_result *result, std::vector<lds_sim_event> *events);

// One of the programs that start in the same cycle on devices with one bus; events may be nullptr.
struct TimedProgram {
  const TimingInput *input;
  lds_sim_result *result;
  std::vector<lds_sim_event> *events;
};

// The same for all of them, of which there is at least one; the bus has the constants of the first. Requests of several devices enter the
// read channel in turn, one burst each; a STORE has the write channel until its last beat.
std::vector<TimingOutcome> time_together(const std::vector<TimedProgram> &programs);

}  // namespace lds::sim
