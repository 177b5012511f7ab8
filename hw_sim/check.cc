// Implementation of check.h.
// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <algorithm>

#include "access.h"

namespace lds::sim {
namespace {

constexpr size_t kKept = 1000;
constexpr uint32_t kInsnWrites = 1, kOtherWrites = 2;

// The stages that write a scratchpad, and the other one that reads it. Of two writers the second is store, which writes INP.
constexpr int kLoadStages[LDS_MEMORIES] = LDS_LOAD_STAGES;
int writers_of(uint32_t memory) { return memory == LDS_MEMORY_INP ? 2 : 1; }
int writer_of(uint32_t memory, int number) { return number == 0 ? kLoadStages[memory] : int{LDS_STAGE_STORE}; }
int reader_of(uint32_t memory) { return memory == LDS_MEMORY_ACC ? LDS_STAGE_STORE : LDS_STAGE_COMPUTE; }

void join(Clock &into, const Clock &from) {
  for (size_t s = 0; s < into.size(); ++s) into[s] = std::max(into[s], from[s]);
}

}  // namespace

Checker::Checker(const Machine &m, bool races, bool uninitialised) : m_(m), races_(races), uninitialised_(uninitialised) {
  for (uint32_t memory = 0; memory < 4; ++memory) tiles_[memory].resize(m.g.depth[memory]);
}

void Checker::begin(bool races, bool uninitialised, uint64_t stream_begin, uint64_t stream_end) {
  races_ = races;
  uninitialised_ = uninitialised;
  stream_begin_ = stream_begin;
  stream_end_ = stream_end;
  clock_ = {};
  for (std::deque<Clock> &queue : tokens_) queue.clear();
  for (std::vector<Tile> &tiles : tiles_)
    for (Tile &tile : tiles) tile.write = {}, tile.read = {};
  stores_.clear();
  loads_[0].clear();
  loads_[1].clear();
  findings_.clear();
  count_ = 0;
}

void Checker::forget_writes() {
  for (std::vector<Tile> &tiles : tiles_)
    for (Tile &tile : tiles) tile.written = false;
}

void Checker::before(uint32_t index, const Insn &insn) {
  stage_ = insn.stage;
  insn_ = index;
  take_tokens(stage_, insn.fields.flags);
  ++clock_[static_cast<size_t>(stage_)][static_cast<size_t>(stage_)];
  switch (insn.fields.opcode) {
    case LDS_OPCODE_LOAD:
      load(insn.fields.u.memory);
      break;
    case LDS_OPCODE_STORE:
      store(insn.fields);
      break;
    case LDS_OPCODE_GEMM:
      gemm(insn.fields.u.gemm);
      break;
    case LDS_OPCODE_DEPTHWISE:
      depthwise(insn.fields.u.depthwise);
      break;
    case LDS_OPCODE_ALU:
      alu(insn.fields.u.alu);
      break;
    default:
      break;
  }
  report();
  give_tokens(stage_, insn.fields.flags);
}

void Checker::take_tokens(int stage, const lds_insn_flags &flags) {
  const auto take = [&](bool pops, int queue) {
    if (!pops) return;
    join(clock_[static_cast<size_t>(stage)], tokens_[queue].front());
    tokens_[queue].pop_front();
  };
  take(flags.pop_prev != 0, kStageQueues[stage].pop_prev);
  take(flags.pop_next != 0, kStageQueues[stage].pop_next);
}

void Checker::give_tokens(int stage, const lds_insn_flags &flags) {
  if (flags.push_prev != 0) tokens_[kStageQueues[stage].push_prev].push_back(clock_[static_cast<size_t>(stage)]);
  if (flags.push_next != 0) tokens_[kStageQueues[stage].push_next].push_back(clock_[static_cast<size_t>(stage)]);
}

// --- accesses of instructions -----------------------------------------------------------------------
void Checker::load(const lds_insn_memory &i) {
  const uint64_t tiles = filled_by(m_.g, i);
  if (i.x_size == 0 || tiles == 0) return;
  check_sram(m_, i.memory_id, i.sram_base + tiles - 1, "the instruction");
  for (uint64_t k = 0; k < tiles; ++k) write_tile(scratchpad_of(i.memory_id), static_cast<uint32_t>(i.sram_base + k));
  visit_rows(m_, i, false, [&](uint64_t begin, uint64_t end) { read_dram(begin, end); });
}

void Checker::store(const lds_insn &insn) {
  const lds_insn_memory &i = insn.u.memory;  // the fields that LOAD and STORE begin with
  const uint64_t tiles = uint64_t{i.y_size} * i.x_size;
  if (tiles == 0) return;
  check_sram(m_, LDS_MEMORY_OUT, i.sram_base + tiles - 1, "the instruction");
  read_operands(insn.u.store);
  for (uint64_t k = 0; k < tiles; ++k) read_tile(LDS_MEMORY_ACC, static_cast<uint32_t>(i.sram_base + k));
  if (i.memory_id != LDS_MEMORY_INP) return visit_rows(m_, i, true, [&](uint64_t begin, uint64_t end) { write_dram(begin, end); });
  check_sram(m_, LDS_MEMORY_INP, i.dram_base + uint64_t{i.x_stride} * (i.y_size - 1) + i.x_size - 1, "STORE to INP");
  for (uint32_t y = 0; y < i.y_size; ++y)
    for (uint32_t x = 0; x < i.x_size; ++x) write_tile(LDS_MEMORY_INP, i.dram_base + y * i.x_stride + x);
}

void Checker::read_operands(const lds_insn_store &i) {
  if (i.requantize == 0) return;
  const uint64_t count = 3 * (i.operand_step != 0 ? uint64_t{i.y_size} : 1);
  check_sram(m_, LDS_MEMORY_ACC, i.operands + count - 1, "STORE operands");
  for (uint64_t k = 0; k < count; ++k) read_tile(LDS_MEMORY_ACC, static_cast<uint32_t>(i.operands + k));
}

void Checker::gemm(const lds_insn_gemm &i) {
  const Loops loops = loops_of(m_, i);
  if (loops.steps() == 0) return;
  const Reach reach = reach_of(loops);
  check_sram(m_, LDS_MEMORY_ACC, reach.dst, "GEMM dst");
  if (i.reset == 0) {
    check_sram(m_, LDS_MEMORY_INP, reach.src, "GEMM src");
    check_sram(m_, LDS_MEMORY_WGT, reach.wgt, "GEMM wgt");
    visit_operand(m_, loops, &Uop::src, src_moves(loops), [&](uint32_t tile) { read_tile(LDS_MEMORY_INP, tile); });
    visit_operand(m_, loops, &Uop::wgt, wgt_moves(loops), [&](uint32_t tile) { read_tile(LDS_MEMORY_WGT, tile); });
  }
  const bool adds = i.reset == 0 && i.overwrite == 0;
  for (uint32_t u = 0; u < loops.count; ++u) read_tile(LDS_MEMORY_UOP, i.uop_bgn + u);
  visit_operand(m_, loops, &Uop::dst, dst_moves(loops), [&](uint32_t tile) {
    if (adds) read_tile(LDS_MEMORY_ACC, tile);
    write_tile(LDS_MEMORY_ACC, tile);
  });
}

void Checker::depthwise(const lds_insn_depthwise &i) {
  const Loops loops = loops_of(m_, i);
  if (loops.steps() == 0) return;
  const Reach reach = reach_of(loops);
  check_sram(m_, LDS_MEMORY_ACC, reach.dst, "DEPTHWISE dst");
  check_sram(m_, LDS_MEMORY_INP, reach.src + window_reach(i), "DEPTHWISE src");
  check_sram(m_, LDS_MEMORY_WGT, reach.wgt, "DEPTHWISE wgt");
  for (uint32_t u = 0; u < loops.count; ++u) read_tile(LDS_MEMORY_UOP, i.uop_bgn + u);
  visit_operand(m_, loops, &Uop::src, src_moves(loops), [&](uint32_t tile) {
    for (uint32_t r = 0; r < i.rows; ++r)
      for (uint32_t c = 0; c < i.columns; ++c) read_tile(LDS_MEMORY_INP, tile + r * i.row_stride + c);
  });
  visit_operand(m_, loops, &Uop::wgt, wgt_moves(loops), [&](uint32_t tile) { read_tile(LDS_MEMORY_WGT, tile); });
  visit_operand(m_, loops, &Uop::dst, dst_moves(loops), [&](uint32_t tile) {
    if (i.overwrite == 0) read_tile(LDS_MEMORY_ACC, tile);
    write_tile(LDS_MEMORY_ACC, tile);
  });
}

void Checker::alu(const lds_insn_alu &i) {
  const Loops loops = loops_of(m_, i);
  if (loops.steps() == 0) return;
  const Reach reach = reach_of(loops);
  const uint32_t operands = i.alu_op == LDS_ALU_RQ ? 3 : i.use_imm != 0 ? 0 : 1;
  check_sram(m_, LDS_MEMORY_ACC, reach.dst, "ALU dst");
  if (operands != 0) check_sram(m_, LDS_MEMORY_ACC, reach.src + operands - 1, "ALU src");
  for (uint32_t u = 0; u < loops.count; ++u) read_tile(LDS_MEMORY_UOP, i.uop_bgn + u);
  for (uint32_t k = 0; k < operands; ++k)
    visit_operand(m_, loops, &Uop::src, src_moves(loops), [&](uint32_t tile) { read_tile(LDS_MEMORY_ACC, tile + k); });
  visit_operand(m_, loops, &Uop::dst, dst_moves(loops), [&](uint32_t tile) {
    read_tile(LDS_MEMORY_ACC, tile);
    write_tile(LDS_MEMORY_ACC, tile);
  });
}

// --- one tile, one range ----------------------------------------------------------------------------
void Checker::read_tile(uint32_t memory, uint32_t tile) {
  Tile &t = tiles_[memory][tile];
  if (uninitialised_ && !t.written) found(LDS_SIM_FINDING_UNINITIALISED, memory, ~0u, 0, tile, 1);
  if (stage_ == writer_of(memory, 0)) return;
  for (int w = 0; w < writers_of(memory); ++w) race_with(memory, writer_of(memory, w), t.write[static_cast<size_t>(w)], kOtherWrites, tile);
  t.read = here();
}

void Checker::write_tile(uint32_t memory, uint32_t tile) {
  Tile &t = tiles_[memory][tile];
  race_with(memory, reader_of(memory), t.read, kInsnWrites, tile);
  const int own = stage_ == writer_of(memory, 0) ? 0 : 1;
  for (int w = 0; w < writers_of(memory); ++w)
    if (w != own) race_with(memory, writer_of(memory, w), t.write[static_cast<size_t>(w)], kInsnWrites | kOtherWrites, tile);
  t.write[static_cast<size_t>(own)] = here();
  t.written = true;
}

void Checker::race_with(uint32_t memory, int stage, const Access &other, uint32_t writes, uint32_t tile) {
  if (races_ && !ordered(stage, other)) found(LDS_SIM_FINDING_RACE_SRAM, memory, other.insn, writes, tile, 1);
}

void Checker::read_dram(uint64_t begin, uint64_t end) {
  if (!races_) return;
  stores_.overlaps(begin, end, [&](uint64_t first, uint64_t last, const Access &store) {
    if (!ordered(LDS_STAGE_STORE, store)) found(LDS_SIM_FINDING_RACE_DRAM, 0, store.insn, kOtherWrites, first, last - first);
  });
  loads_[stage_].assign(begin, end, here());
}

void Checker::write_dram(uint64_t begin, uint64_t end) {
  if (!races_) return;
  for (int stage : {int{LDS_STAGE_LOAD}, int{LDS_STAGE_COMPUTE}})
    loads_[stage].overlaps(begin, end, [&](uint64_t first, uint64_t last, const Access &load) {
      if (!ordered(stage, load)) found(LDS_SIM_FINDING_RACE_DRAM, 0, load.insn, kInsnWrites, first, last - first);
    });
  if (begin < stream_end_ && end > stream_begin_) {  // fetch may read the stream at any time
    const uint64_t first = std::max(begin, stream_begin_), last = std::min(end, stream_end_);
    found(LDS_SIM_FINDING_RACE_DRAM, 0, static_cast<uint32_t>((first - stream_begin_) / LDS_INSN_BYTES), kInsnWrites, first, last - first);
  }
  stores_.assign(begin, end, here());
}

// --- findings ---------------------------------------------------------------------------------------
// One finding for each pair of instructions and memory, however many tiles they share.
void Checker::found(uint32_t kind, uint32_t memory, uint32_t other, uint32_t writes, uint64_t first, uint64_t count) {
  lds_sim_finding &f = pending_[{kind, memory, other, writes}];
  if (f.count == 0) f = {kind, memory, insn_, other, writes, 0, first};
  const uint64_t begin = std::min(f.first, first), end = std::max(f.first + f.count, first + count);
  f.first = begin;
  f.count = static_cast<uint32_t>(std::min<uint64_t>(end - begin, ~0u));
}

void Checker::report() {
  for (const auto &[key, finding] : pending_) {
    ++count_;
    if (findings_.size() < kKept) findings_.push_back(finding);
  }
  pending_.clear();
}

}  // namespace lds::sim
