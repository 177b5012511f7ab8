// Implementation of strict.h.
// SPDX-License-Identifier: Apache-2.0
#include "strict.h"

#include <algorithm>

#include "access.h"
#include "stop.h"

namespace lds::sim {
namespace {

constexpr uint32_t kMaxInpTiles = 2047;  // one LOAD INP of 2048 ends too early on the RTL
constexpr int32_t kMaxShift = 31;

[[noreturn]] void unsafe(std::string message) {
  throw Stop{LDS_ERROR_UNSAFE, 0, "real VTA hardware computes something else: " + std::move(message)};
}

uint32_t pads_of(const lds_insn &i) {
  const lds_insn_memory &m = i.u.memory;
  return i.opcode == LDS_OPCODE_STORE ? 0 : m.y_pad_0 | m.y_pad_1 | m.x_pad_0 | m.x_pad_1;
}

bool all_zero(const lds_insn &i) {
  const lds_insn_memory &m = i.u.memory;
  return (m.sram_base | m.dram_base | m.y_size | m.x_stride | pads_of(i)) == 0;
}

template <typename Loop>
void check_loops(const Loop &i) {
  if (i.uop_end <= i.uop_bgn || i.iter_out == 0 || i.iter_in == 0) unsafe("a loop count of 0 (each must be at least 1)");
}

void check_immediate(const Loops &l, const lds_insn_alu &i) {
  bool same = i.src_out == i.dst_out && i.src_in == i.dst_in;
  for (uint32_t u = 0; u < l.count; ++u) same = same && l.uops[u].src == l.uops[u].dst;
  if (!same) unsafe("an immediate ALU operation reads src: its index and factors must equal dst's");
  if (i.alu_op == LDS_ALU_SHR && (i.imm < -16 || i.imm > 15)) unsafe(format("SHR by the immediate %d, outside [-16, 15]", i.imm));
}

void check_shifts(const Machine &m, const Loops &l) {
  visit_operand(m, l, &Uop::src, src_moves(l), [&](uint32_t tile) {
    const int32_t *lanes = m.acc.data() + size_t{tile} * m.g.lanes;
    m.poll->spend(m.g.lanes);
    for (uint32_t k = 0; k < m.g.lanes; ++k)
      if (lanes[k] < 0 || lanes[k] > kMaxShift)
        unsafe(format("tensor SHR by %d in ACC tile %u, outside [0, %d]", lanes[k], tile, kMaxShift));
  });
}

// A step is still in the pipeline while the next two read their operands.
void check_distance(const Machine &m, const Loops &l, bool reads_src) {
  uint32_t before[2] = {~0u, ~0u};
  for (uint32_t i = 0; i < l.iter_out; ++i)
    for (uint32_t j = 0; j < l.iter_in; ++j) {
      m.poll->spend(Poll::kLane * l.count);
      for (uint32_t u = 0; u < l.count; ++u) {
        const uint32_t d = l.uops[u].dst + i * l.dst_out + j * l.dst_in, s = reads_src ? l.uops[u].src + i * l.src_out + j * l.src_in : d;
        for (uint32_t b : before)
          if (b == d || b == s) unsafe(format("ACC tile %u is written, and used again within the next two ALU steps", b));
        before[0] = before[1];
        before[1] = d;
      }
    }
}

}  // namespace

Strict::Strict(const Machine &m, const Program &program, uint32_t insn_count, const TimingConstants &constants, uint32_t bus_bits)
    : m_(m), bus_(bus_bits, constants), measured_bus_(bus_bits == 64), insn_count_(insn_count), computed_(m.g.depth[LDS_MEMORY_ACC]) {
  const uint32_t batch = static_cast<uint32_t>(std::max<int64_t>(1, constants.fetch_batch_instructions));
  if (insn_count_ != 0) last_read_ = (insn_count_ - 1) / batch * batch;
  for (uint32_t i = last_read_; i < program.insns.size(); ++i)
    if (program.insns[i].fields.opcode == LDS_OPCODE_LOAD && !program.insns[i].is_nop()) last_read_ = i;
}

void Strict::before(uint32_t index, const Insn &insn) {
  count_tokens(insn.stage, insn.fields.flags);
  switch (insn.fields.opcode) {
    case LDS_OPCODE_LOAD:
    case LDS_OPCODE_STORE:
      memory(index, insn);
      break;
    case LDS_OPCODE_GEMM:
      gemm(insn.fields.u.gemm);
      break;
    case LDS_OPCODE_ALU:
      alu(insn.fields.u.alu);
      break;
    case LDS_OPCODE_FINISH:
      finish(index);
      break;
    default:
      break;
  }
  ++seen_;
}

void Strict::count_tokens(int stage, const lds_insn_flags &f) {
  const StageQueues &q = kStageQueues[stage];
  tokens_[q.pop_prev] -= f.pop_prev;
  tokens_[q.pop_next] -= f.pop_next;
  tokens_[q.push_prev] += f.push_prev;
  tokens_[q.push_next] += f.push_next;
}

// In VTA's simulation the memory model, unlike the hardware, loses data after a burst of a single beat that another read follows.
void Strict::bursts(uint32_t index, const lds_insn_memory &i) const {
  const uint64_t tile_bytes = m_.g.dram_tile_bytes[i.memory_id];
  const uint64_t begin = m_.regions[i.region].base + uint64_t{i.dram_base} * m_.g.dram_base_bytes[i.memory_id];
  Bursts left(bus_, begin, i.x_size * tile_bytes, dram_rows(i), i.x_stride * tile_bytes);
  while (!left.done()) {
    m_.poll->spend(Poll::kBurst);
    if (left.next() == 1 && (!left.done() || index < last_read_))
      throw Stop{LDS_ERROR_UNSAFE, 0,
                 format("VTA's simulation memory loses what it reads: LOAD %s has a burst of a single beat with another read behind it",
                        memory_name(i.memory_id))};
  }
}

void Strict::memory(uint32_t index, const Insn &insn) {
  const lds_insn_memory &i = insn.fields.u.memory;
  if (i.x_size == 0) {
    if (!all_zero(insn.fields)) unsafe("a no-op (x_size = 0) whose other fields are not 0");
    return;
  }
  if (i.y_size == 0) unsafe("y_size = 0");
  const bool store = insn.fields.opcode == LDS_OPCODE_STORE;
  if (store && (insn.fields.u.store.requantize != 0 || insn.stores_to_inp() || insn.stores_whole_lanes()))
    return;  // no device of VTA's has it
  const uint32_t pads = pads_of(insn.fields);
  if (i.memory_id == LDS_MEMORY_WGT && pads != 0) unsafe("padding of WGT");
  if (i.memory_id == LDS_MEMORY_UOP && (pads != 0 || i.y_size != 1)) unsafe("LOAD UOP must be one-dimensional: y_size = 1, no pads");
  if (i.memory_id == LDS_MEMORY_INP && uint64_t{i.x_size} * i.y_size > kMaxInpTiles)
    unsafe(format("LOAD INP of %u tiles, more than %u", i.x_size * i.y_size, kMaxInpTiles));
  if (measured_bus_ && !store) bursts(index, i);
  if (scratchpad_of(i.memory_id) != LDS_MEMORY_ACC) return;
  const uint64_t rows = store ? i.y_size : uint64_t{i.y_pad_0} + i.y_size + i.y_pad_1;
  const uint64_t width = store ? i.x_size : uint64_t{i.x_pad_0} + i.x_size + i.x_pad_1;
  check_sram(m_, i.memory_id, i.sram_base + rows * width - 1, "the instruction");
  for (size_t t = i.sram_base; t < i.sram_base + rows * width; ++t) {
    if (!store)
      computed_[t] = 0;
    else if (computed_[t] == 0)
      unsafe(
          format("STORE reads the out buffer, and ACC tile %u was not written by a GEMM (reset aside) or ALU operation since it was loaded",
                 static_cast<uint32_t>(t)));
  }
}

void Strict::gemm(const lds_insn_gemm &i) {
  check_loops(i);
  const Loops loops = loops_of(m_, i);
  check_sram(m_, LDS_MEMORY_ACC, reach_of(loops).dst, "GEMM dst");
  const uint8_t value = i.reset == 0;
  visit_operand(m_, loops, &Uop::dst, dst_moves(loops), [&](uint32_t tile) { computed_[tile] = value; });
}

void Strict::alu(const lds_insn_alu &i) {
  check_loops(i);
  const Loops loops = loops_of(m_, i);
  const Reach reach = reach_of(loops);
  check_sram(m_, LDS_MEMORY_ACC, reach.dst, "ALU dst");
  if (i.use_imm == 0) check_sram(m_, LDS_MEMORY_ACC, reach.src, "ALU src");
  if (i.use_imm != 0) check_immediate(loops, i);
  if (i.alu_op == LDS_ALU_SHR && i.use_imm == 0) check_shifts(m_, loops);
  check_distance(m_, loops, i.use_imm == 0);
  visit_operand(m_, loops, &Uop::dst, dst_moves(loops), [&](uint32_t tile) { computed_[tile] = 1; });
}

void Strict::finish(uint32_t index) {
  if (index + 1 != insn_count_) unsafe(format("FINISH is not the last instruction: %u follow", insn_count_ - index - 1));
  if (seen_ != index) unsafe("FINISH runs while load or store has instructions left");
  for (int queue = 0; queue < kTokenQueues; ++queue)
    if (tokens_[queue] != 0) unsafe("FINISH leaves a token in a queue, which the next program would find");
}

}  // namespace lds::sim
