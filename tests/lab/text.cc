// The lab's assembler and disassembler outside of a page, for tests.
//
// In:   a device's widths as words; on stdin lines `a TEXT` or `d HEX`.
// Out:  for each line bytes in hexadecimal, or the text, or `! ` and the refusal.
// Next: test_text.py.
// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace {

using namespace lds::lab;  // NOLINT: this file only wraps

std::string hex(const std::vector<uint8_t> &bytes) {
  std::string text;
  char two[3];
  for (const uint8_t byte : bytes) {
    std::snprintf(two, sizeof two, "%02x", byte);
    text += two;
  }
  return text;
}

std::string disassembled(const std::string &digits, lds_isa_widths widths) {
  uint8_t bytes[LDS_INSN_BYTES];
  lds_insn insn;
  for (size_t k = 0; k < sizeof bytes; ++k) bytes[k] = static_cast<uint8_t>(std::strtoul(digits.substr(2 * k, 2).c_str(), nullptr, 16));
  if (lds_insn_decode(widths, bytes, &insn) != LDS_ISA_OK) throw Refusal{"no instruction"};
  return print(values_of(insn));
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  uint32_t width[4];
  for (int k = 0; k < 4; ++k) width[k] = static_cast<uint32_t>(std::strtoul(argv[k + 1], nullptr, 10));
  const lds_isa_widths widths = {width[0], width[1], width[2], width[3]};
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const std::string rest = line.substr(2);
      std::cout << (line[0] == 'a' ? hex(assemble(rest, widths).bytes) : disassembled(rest, widths)) << '\n';
    } catch (const Refusal &refusal) {
      std::cout << "! " << refusal.message << '\n';
    }
  }
  return 0;
}
