// A stream of instructions, decoded once and distributed to the three queues.
//
// In:   a copy of the stream's bytes.
// Out:  the fields and the stage of each instruction; one that the device refuses is marked.
// Next: run.cc executes it; timing.cc times it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "geometry.h"
#include "lds_isa.h"
#include "poll.h"

namespace lds::sim {

struct Insn {
  lds_insn fields;
  uint8_t stage;  // LDS_STAGE_*
  bool refused;   // why_refused() states the reason

  bool stores_to_inp() const { return fields.opcode == LDS_OPCODE_STORE && fields.u.memory.memory_id == LDS_MEMORY_INP; }
  bool stores_whole_lanes() const { return fields.opcode == LDS_OPCODE_STORE && fields.u.memory.memory_id == LDS_MEMORY_ACC && !is_nop(); }
  bool is_memory() const { return fields.opcode == LDS_OPCODE_LOAD || fields.opcode == LDS_OPCODE_STORE; }
  bool is_nop() const { return is_memory() && fields.u.memory.x_size == 0; }
};

struct Program {
  std::vector<Insn> insns;         // up to the first refused one
  std::vector<uint32_t> queue[3];  // indices by stage, in order
};

// Throws Stop when the run is to end meanwhile: a stream can have gigabytes.
Program decode_program(const Geometry &g, const uint8_t *bytes, uint32_t count, Poll *poll);

// Why the device refuses an instruction; "" when it does not.
std::string why_refused(const Geometry &g, const uint8_t *bytes);

}  // namespace lds::sim
