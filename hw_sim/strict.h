// What real VTA hardware would compute otherwise than docs/isa.md's meaning says (profile vta).
//
// In:   each instruction as it runs.
// Out:  LDS_ERROR_UNSAFE at the first that leaves the safe subset, with the reason.
// Next: docs/isa.md lists the rules, measured on VTA's RTL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "machine.h"
#include "run.h"

namespace lds::sim {

class Strict : public Observer {
 public:
  Strict(const Machine &m, uint32_t insn_count) : m_(m), insn_count_(insn_count), computed_(m.g.depth[LDS_MEMORY_ACC]) {}

  void before(uint32_t index, const Insn &insn) override;

 private:
  void memory(const Insn &insn);
  void gemm(const lds_insn_gemm &insn);
  void alu(const lds_insn_alu &insn);
  void finish(uint32_t index);
  void count_tokens(int stage, const lds_insn_flags &flags);

  const Machine &m_;
  uint32_t insn_count_;
  std::vector<uint8_t> computed_;  // by ACC tile: compute wrote it since it was loaded, so that the out buffer holds it too
  uint32_t seen_ = 0;
  int64_t tokens_[kTokenQueues + 1] = {};
};

}  // namespace lds::sim
