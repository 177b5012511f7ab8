// Implementation of program.h.
// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include "machine.h"
#include "stop.h"

namespace lds::sim {
namespace {

std::string refuse_memory(const Geometry &g, const lds_insn &i) {
  const lds_insn_memory &m = i.u.memory;  // the fields that LOAD and STORE begin with
  const bool store = i.opcode == LDS_OPCODE_STORE;
  const bool nop = m.x_size == 0;  // moves no data: in VTA's programs all its fields are 0
  const bool to_inp = store && !nop && m.memory_id == LDS_MEMORY_INP;
  const bool whole = store && !nop && m.memory_id == LDS_MEMORY_ACC;
  if (to_inp && !g.has(LDS_CAP_STORE_INP)) return "STORE of memory INP needs capability store_inp";
  if (to_inp && m.region != 0) return "STORE of memory INP: region must be 0";
  if (whole && !g.has(LDS_CAP_STORE_ACC)) return "STORE of memory ACC needs capability store_acc";
  if (!nop && !to_inp && !whole && store != (m.memory_id == LDS_MEMORY_OUT))
    return format("%s of memory %s: OUT is stored, and never loaded", store ? "STORE" : "LOAD", memory_name(m.memory_id));
  if (m.memory_id == LDS_MEMORY_ACC_8BIT && !g.has(LDS_CAP_LOAD_ACC8)) return "LOAD of ACC_8BIT needs capability load_acc8";
  if (m.memory_id == LDS_MEMORY_WGT_4BIT && !g.has(LDS_CAP_WEIGHTS4)) return "LOAD of WGT_4BIT needs capability weights4";
  const bool planes = m.memory_id == LDS_MEMORY_WGT_PLANES;
  if (planes && !g.has(LDS_CAP_WEIGHT_CODE)) return "LOAD of WGT_PLANES needs capability weight_code";
  if ((planes || m.memory_id == LDS_MEMORY_WGT_4BIT) && !store && (m.y_pad_0 | m.y_pad_1 | m.x_pad_0 | m.x_pad_1) != 0)
    return format("LOAD of memory %s has no pads: they must be 0", memory_name(m.memory_id));
  if (planes && !store && m.x_stride != 0) return "LOAD of memory WGT_PLANES has one row: x_stride must be 0";
  if (m.region != 0 && !g.has(LDS_CAP_REGIONS)) return format("region %u needs capability regions", m.region);
  if (!store) return "";
  const lds_insn_store &s = i.u.store;
  if ((s.operands | s.operand_step | s.requantize) == 0) return "";
  if (whole) return "STORE of memory ACC does not requantize: operands and requantize must be 0";
  if (!g.has(LDS_CAP_STORE_REQUANTIZE)) return "STORE with operands or requantize needs capability store_requantize";
  return s.requantize == 0 ? "STORE without requantize has no operands: they must be 0" : "";
}

std::string refuse_alu(const Geometry &g, const lds_insn_alu &a) {
  if (a.reset != 0) return "ALU.reset must be 0";
  if (a.alu_op == LDS_ALU_MUL && !g.has(LDS_CAP_ALU_MUL)) return "ALU MUL needs capability alu_mul";
  if (a.alu_op == LDS_ALU_RQ && !g.has(LDS_CAP_REQUANTIZE)) return "ALU RQ needs capability requantize";
  if (a.alu_op == LDS_ALU_SHR && g.is_float) return "ALU SHR is of integers, and the device computes in float32";
  if (a.alu_op == LDS_ALU_RQ && a.use_imm != 0) return "RQ has no immediate: use_imm must be 0";
  return "";
}

std::string refuse_depthwise(const Geometry &g, const lds_insn_depthwise &d) {
  if (!g.has(LDS_CAP_DEPTHWISE)) return "DEPTHWISE needs capability depthwise";
  if (d.overwrite != 0 && !g.has(LDS_CAP_GEMM_OVERWRITE)) return "DEPTHWISE.overwrite needs capability gemm_overwrite";
  const uint32_t most = lds_window_rows(g.block);
  if (d.rows >= 1 && d.rows <= most && d.columns >= 1 && d.columns <= LDS_WINDOW_COLUMNS) return "";
  return format("DEPTHWISE: a window of %u x %u is outside [1, %u] x [1, %u]", d.rows, d.columns, most, LDS_WINDOW_COLUMNS);
}

std::string refuse_config(const Geometry &g, const lds_insn_config &c) {
  if (!g.has(LDS_CAP_CONFIG)) return "CONFIG needs capability config";
  const bool pad = c.register_id == LDS_CONFIG_PAD_VALUE;
  if (c.stage == LDS_STAGE_STORE && !g.has(LDS_CAP_STORE_REQUANTIZE)) return "CONFIG of store needs capability store_requantize";
  const bool exists = c.stage == LDS_STAGE_COMPUTE || pad == (c.stage == LDS_STAGE_LOAD);
  if (!exists) return format("CONFIG: stage %u has no register %u", c.stage, c.register_id);
  const bool rounding = c.register_id == LDS_CONFIG_RQ_ROUNDING;
  if (rounding && (c.value < 0 || c.value > static_cast<int32_t>(LDS_ROUNDING_FLOAT32)))
    return format("CONFIG: RQ_ROUNDING=%d is outside [0, 2]", c.value);
  return "";
}

std::string refuse(const Geometry &g, const lds_insn &i) {
  const uint32_t stage = lds_stage_of(&i);
  if (stage == LDS_STAGE_LOAD && (i.flags.pop_prev | i.flags.push_prev) != 0)
    return "load has no stage before it: pop_prev and push_prev must be 0";
  if (stage == LDS_STAGE_STORE && (i.flags.pop_next | i.flags.push_next) != 0)
    return "store has no stage after it: pop_next and push_next must be 0";
  switch (i.opcode) {
    case LDS_OPCODE_LOAD:
    case LDS_OPCODE_STORE:
      return refuse_memory(g, i);
    case LDS_OPCODE_GEMM:
      return i.u.gemm.overwrite != 0 && !g.has(LDS_CAP_GEMM_OVERWRITE) ? "GEMM.overwrite needs capability gemm_overwrite" : "";
    case LDS_OPCODE_ALU:
      return refuse_alu(g, i.u.alu);
    case LDS_OPCODE_CONFIG:
      return refuse_config(g, i.u.config);
    case LDS_OPCODE_DEPTHWISE:
      return refuse_depthwise(g, i.u.depthwise);
    default:
      return "";
  }
}

// The fields, or the reason for refusing the instruction.
std::string decode(const Geometry &g, const uint8_t *bytes, lds_insn *out) {
  switch (lds_insn_decode(g.widths, bytes, out)) {
    case LDS_ISA_OK:
      return refuse(g, *out);
    case LDS_ISA_BAD_OPCODE:
      return format("opcode %u is unknown", bytes[0] & 7u);
    case LDS_ISA_BAD_VALUE:
      return "a field holds an unknown memory, operation, stage or register";
    default:
      return "a reserved bit is set";
  }
}

}  // namespace

std::string why_refused(const Geometry &g, const uint8_t *bytes) {
  lds_insn fields{};
  return decode(g, bytes, &fields);
}

Program decode_program(const Geometry &g, const uint8_t *bytes, uint32_t count, Poll *poll) {
  Program p;
  p.insns.reserve(count);
  for (uint32_t n = 0; n < count; ++n) {
    poll->spend(Poll::kBurst);
    Insn insn{};
    insn.refused = !decode(g, bytes + size_t{n} * LDS_INSN_BYTES, &insn.fields).empty();
    insn.stage = static_cast<uint8_t>(insn.refused ? LDS_STAGE_COMPUTE : lds_stage_of(&insn.fields));
    if (insn.refused) insn.fields.flags = {};  // it stops the program when compute reaches it, whatever its bits are
    p.insns.push_back(insn);
    p.queue[insn.stage].push_back(n);
    if (insn.refused) break;
  }
  return p;
}

}  // namespace lds::sim
