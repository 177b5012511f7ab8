// Instructions as text, in C++: what python/loadstone/vta/isa/asm.py describes, for the page.
//
// In:   a line of text, or the 16 bytes of an instruction.
// Out:  the other; Refusal says in Python's words what was expected where.
// Next: parse.cc reads words.h, print.cc writes, insn.cc is between fields and bytes; tests/lab/test_text.py compares with Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa_words.h"

namespace lds::lab {

struct Refusal {
  std::string message;
};

// An instruction as the text has it: numbers that may not fit their fields.
struct Values {
  explicit Values(uint32_t opcode);
  int64_t &operator[](const std::string &field);
  int64_t at(const std::string &field) const { return const_cast<Values &>(*this)[field]; }

  const Form *form;
  int64_t value[kMostFields] = {};
};

// Of the fields of an instruction. stage_of: for values in their ranges.
uint32_t stage_of(const Values &values);
lds_insn insn_of(const Values &values);
Values values_of(const lds_insn &insn);

// 16 bytes, appended. Throws Refusal where a field does not fit.
void encode(const Values &values, lds_isa_widths widths, std::vector<uint8_t> *out);

Values parse(const std::string &line);
std::string print(const Values &values);

// Where a program's text became instructions: the bytes, and the line of each, from 0 on.
struct Assembled {
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> lines;
};
// Throws Refusal, which names the line.
Assembled assemble(const std::string &text, lds_isa_widths widths);

}  // namespace lds::lab
