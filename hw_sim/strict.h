// What real VTA hardware would compute otherwise than docs/isa.md's meaning says (profile vta).
//
// In:   each instruction as it runs.
// Out:  LDS_ERROR_UNSAFE at the first that leaves the safe subset, with the reason.
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
  const bool measured_bus_;              // 64 bits: those of the RTL whose bursts were measured
  uint32_t insn_count_, last_read_ = 0;  // the last instruction behind which nothing is read, neither data nor instructions
  std::vector<uint8_t> computed_;        // by ACC tile: compute wrote it since it was loaded, so that the out buffer holds it too
  uint32_t seen_ = 0;
  int64_t tokens_[kTokenQueues + 1] = {};
};

}  // namespace lds::sim
