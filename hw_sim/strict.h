// Detect where VTA's hardware computes something other than docs/isa.md defines (profile vta).
//
// In:   each instruction as it runs.
// Out:  LDS_ERROR_UNSAFE at the first instruction outside the safe subset, with the reason.
// Next: docs/isa.md lists the rules, measured on VTA's RTL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "bursts.h"
#include "machine.h"
#include "program.h"
#include "run.h"

namespace lds::sim {

class Strict : public Observer {
 public:
  Strict(const Machine &m, const Program &program, uint32_t insn_count, const TimingConstants &constants, uint32_t bus_bits);

  void before(uint32_t index, const Insn &insn) override;

 private:
  void memory(uint32_t index, const Insn &insn);
  void bursts(uint32_t index, const lds_insn_memory &insn) const;
  void gemm(const lds_insn_gemm &insn);
  void alu(const lds_insn_alu &insn);
  void finish(uint32_t index);
  void count_tokens(int stage, const lds_insn_flags &flags);

  const Machine &m_;
  const BusShape bus_;
  const bool measured_bus_;              // the bus has 64 bits, as that of the RTL whose bursts were measured
  uint32_t insn_count_, last_read_ = 0;  // last_read_: the first instruction after which neither data nor instructions are read
  std::vector<uint8_t> computed_;        // by ACC tile: compute wrote it after it was loaded, so that the out buffer holds it too
  uint32_t seen_ = 0;
  int64_t tokens_[kTokenQueues + 1] = {};
};

}  // namespace lds::sim
