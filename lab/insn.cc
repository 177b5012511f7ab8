// Between the values of a text, the fields of an instruction and its bytes.
//
// In:   values by name, as isa_words.h places them.
// Out:  lds_insn and bytes, by the codec of lds_isa.h; Refusal where a value does not fit.
// Next: parse.cc.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "text.h"

namespace lds::lab {
namespace {

const Form &form_of(uint32_t opcode) {
  for (const Form &form : kForms)
    if (form.opcode == opcode) return form;
  throw Refusal{"opcode " + std::to_string(opcode) + " is unknown"};
}

const uint8_t *place(const lds_insn &insn, const Field &field) { return reinterpret_cast<const uint8_t *>(&insn) + field.offset; }

void check(const Form &form, const Field &field, int64_t value, lds_isa_widths widths) {
  const uint32_t bits = field.bits + (field.more != nullptr ? widths.*field.more : 0u);
  const int64_t low = field.is_signed ? -(int64_t{1} << (bits - 1u)) : 0;
  const int64_t high = field.is_signed ? -low - 1 : (int64_t{1} << bits) - 1;
  if (value >= low && value <= high) return;
  throw Refusal{std::string(form.name) + "." + field.name + "=" + std::to_string(value) + " does not fit " + std::to_string(bits) +
                " bits [" + std::to_string(low) + ", " + std::to_string(high) + "]"};
}

}  // namespace

Values::Values(uint32_t opcode) : form(&form_of(opcode)) {}

int64_t &Values::operator[](const std::string &field) {
  for (uint32_t k = 0; k < form->count; ++k)
    if (field == form->fields[k].name) return value[k];
  throw Refusal{std::string(form->name) + " has no field " + field};
}

lds_insn insn_of(const Values &values) {
  lds_insn insn;
  std::memset(&insn, 0, sizeof insn);
  insn.opcode = values.form->opcode;
  for (uint32_t k = 0; k < values.form->count; ++k) {
    const Field &field = values.form->fields[k];
    const uint32_t bits = static_cast<uint32_t>(values.value[k]);
    const uint8_t byte = static_cast<uint8_t>(bits);
    std::memcpy(const_cast<uint8_t *>(place(insn, field)), field.bytes == 1 ? static_cast<const void *>(&byte) : &bits, field.bytes);
  }
  return insn;
}

Values values_of(const lds_insn &insn) {
  Values values(insn.opcode);
  for (uint32_t k = 0; k < values.form->count; ++k) {
    const Field &field = values.form->fields[k];
    uint32_t bits = 0;
    std::memcpy(&bits, place(insn, field), field.bytes);  // little-endian, as WebAssembly is
    values.value[k] = field.is_signed ? int64_t{static_cast<int32_t>(bits)} : int64_t{bits};
  }
  return values;
}

uint32_t stage_of(const Values &values) {
  const lds_insn insn = insn_of(values);
  return lds_stage_of(&insn);
}

void encode(const Values &values, lds_isa_widths widths, std::vector<uint8_t> *out) {
  for (uint32_t k = 0; k < values.form->count; ++k) check(*values.form, values.form->fields[k], values.value[k], widths);
  const lds_insn insn = insn_of(values);
  lds_insn again;
  uint8_t bytes[LDS_INSN_BYTES];
  const int status = lds_insn_encode(widths, &insn, bytes);
  if (status != LDS_ISA_OK || lds_insn_decode(widths, bytes, &again) != LDS_ISA_OK)
    throw Refusal{std::string(values.form->name) + ": a field holds an unknown value"};
  out->insert(out->end(), bytes, bytes + LDS_INSN_BYTES);
}

}  // namespace lds::lab
