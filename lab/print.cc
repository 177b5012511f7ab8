// Instructions -> text, as python/loadstone/vta/isa/asm.py writes them.
//
// In:   values of fields, each in its range.
// Out:  one line, which parse.cc turns back into the same values.
// Next: bench.cc and artifact.cc give it to the page.
// SPDX-License-Identifier: Apache-2.0
#include "text.h"

namespace lds::lab {
namespace {

std::string number(const Values &v, const std::string &field) { return std::to_string(v.at(field)); }

template <size_t kCount>
const char *word_for(const Word (&words)[kCount], int64_t value) {
  for (const Word &word : words)
    if (word.value == value) return word.text;
  return nullptr;
}

// fields: how far the operand moves with each loop.
std::string tile(const Values &v, const char *memory, const std::vector<std::pair<const char *, const char *>> &fields) {
  std::string text = std::string(memory) + "[u";
  for (const auto &[field, loop] : fields)
    if (v.at(field) != 0) text += "+" + number(v, field) + loop;
  return text + "]";
}

std::string dst(const Values &v) { return tile(v, "acc", {{"dst_out", "i"}, {"dst_in", "j"}}); }

std::string loops(const Values &v) {
  return "for i<" + number(v, "iter_out") + " j<" + number(v, "iter_in") + " u in " + number(v, "uop_bgn") + ".." + number(v, "uop_end");
}

// "nop load" for what moves nothing and says nothing else; "" for others.
std::string nothing(const Values &v) {
  if (v.at("x_size") != 0) return "";
  for (const Nothing &each : kNothings) {
    if (each.opcode != v.form->opcode || v.at("memory_id") != each.memory) continue;
    bool plain = true;
    for (uint32_t k = LDS_BIT_PUSH_NEXT - LDS_BIT_POP_PREV + 1u; k < v.form->count; ++k)
      plain = plain && (v.value[k] == 0 || std::string(v.form->fields[k].name) == "memory_id");
    if (plain) return std::string("nop ") + each.text;
  }
  return "";
}

std::string transfer(const Values &v) {
  const bool loads = v.form->opcode == LDS_OPCODE_LOAD, flat = v.at("y_size") == 1 && v.at("x_stride") == v.at("x_size");
  const std::string rows = flat || v.at("x_stride") == 0 ? "" : number(v, "x_stride") + "y + ";
  const bool to_inp = !loads && v.at("memory_id") == LDS_MEMORY_INP;
  const std::string place = to_inp ? "inp" : "dram" + (v.at("region") != 0 ? number(v, "region") : "");
  const std::string dram = place + "[" + number(v, "dram_base") + " + " + rows + "x]";
  const std::string pad = std::string(to_inp ? "out" : word_for(kMemories, v.at("memory_id"))) + "[" + number(v, "sram_base") + "]";
  std::string text = loads ? "load " + pad + " = " + dram : "store " + dram + " = " + pad, pads;
  if (!loads && v.at("requantize") != 0) text += " rq acc[" + number(v, "operands") + (v.at("operand_step") != 0 ? " + 3y" : "") + "]";
  for (const Side &side : kSides)
    if (loads && v.at(side.field) != 0) pads += std::string(" ") + side.text + " " + number(v, side.field);
  return text + " for " + (flat ? "" : "y<" + number(v, "y_size") + " ") + "x<" + number(v, "x_size") + (pads.empty() ? "" : " pad" + pads);
}

std::string gemm(const Values &v) {
  const std::string right = v.at("reset") != 0
                                ? "= 0"
                                : (v.at("overwrite") != 0 ? "= " : "+= ") + tile(v, "inp", {{"src_out", "i"}, {"src_in", "j"}}) + " * " +
                                      tile(v, "wgt", {{"wgt_out", "i"}, {"wgt_in", "j"}});
  return "gemm " + dst(v) + " " + right + " " + loops(v);
}

std::string depthwise(const Values &v) {
  return "depthwise " + dst(v) + (v.at("overwrite") != 0 ? " = " : " += ") +
         tile(v, "inp", {{"src_out", "i"}, {"src_in", "j"}, {"row_stride", "r"}}) + " * " + tile(v, "wgt", {{"wgt_out", "i"}}) + " " +
         loops(v) + " r<" + number(v, "rows") + " c<" + number(v, "columns") + (v.at("wide") != 0 ? " wide" : "");
}

std::string alu(const Values &v) {
  return "alu " + dst(v) + " " + word_for(kSigns, v.at("alu_op")) + " " +
         (v.at("use_imm") != 0 ? number(v, "imm") : tile(v, "acc", {{"src_out", "i"}, {"src_in", "j"}})) + " " + loops(v);
}

std::string config(const Values &v) {
  const char *rounding = v.at("register_id") == LDS_CONFIG_RQ_ROUNDING ? word_for(kRoundings, v.at("value")) : nullptr;
  return std::string("config ") + word_for(kStages, v.at("stage")) + " " + word_for(kRegisters, v.at("register_id")) + " = " +
         (rounding != nullptr ? rounding : number(v, "value"));
}

// The readable form, which may leave fields unsaid.
std::string body(const Values &v) {
  std::string none;
  switch (v.form->opcode) {
    case LDS_OPCODE_LOAD:
    case LDS_OPCODE_STORE:
      none = nothing(v);
      return none.empty() ? transfer(v) : none;
    case LDS_OPCODE_GEMM:
      return gemm(v);
    case LDS_OPCODE_DEPTHWISE:
      return depthwise(v);
    case LDS_OPCODE_ALU:
      return alu(v);
    case LDS_OPCODE_CONFIG:
      return config(v);
    default:
      return "finish";
  }
}

}  // namespace

std::string print(const Values &v) {
  const uint32_t stage = stage_of(v);
  std::string said, pushes;
  for (const Neighbour &each : kNeighbours) {
    if (each.stage != stage) continue;
    if (v.at(each.pop) != 0) said += std::string("pop(") + each.text + ") ";
    if (v.at(each.push) != 0) pushes += std::string(" push(") + each.text + ")";
  }
  said += body(v);
  const Values again = parse(said + pushes);
  std::string unsaid;
  for (uint32_t k = 0; k < v.form->count; ++k)
    if (again.value[k] != v.value[k]) unsaid += std::string(" ") + v.form->fields[k].name + "=" + std::to_string(v.value[k]);
  return said + (unsaid.empty() ? "" : " with" + unsaid) + pushes;
}

}  // namespace lds::lab
