// Implementation of slow_steps.h.
//
// In:   the micro-ops in the scratchpad.
// Out:  cycles, the same for every host.
// Next: run.cc.
// SPDX-License-Identifier: Apache-2.0
#include "slow_steps.h"

#include <algorithm>

namespace lds::sim {
namespace {

constexpr uint32_t kNone = ~0u;
constexpr uint32_t kOperands = 3;  // bias, multiplier, shift

}  // namespace

uint64_t window_cycles(const Machine &m, const lds_insn_depthwise &insn) {
  const Loops l = loops_of(m, insn);
  uint64_t cycles = 0;
  uint32_t before = kNone;
  for (uint32_t i = 0; i < l.iter_out && l.count != 0; ++i)
    for (uint32_t j = 0; j < l.iter_in; ++j) {
      m.poll->spend(Poll::kStep * l.count);
      for (uint32_t u = 0; u < l.count; ++u) {
        const uint32_t src = l.uops[u].src + i * l.src_out + j * l.src_in;
        uint32_t rows = 1;
        while (rows < insn.rows && (before == kNone || src != before + rows * insn.row_stride)) ++rows;
        cycles += rows;
        before = src;
      }
    }
  return cycles;
}

Loops SlowLog::loops_of(const Item &item) const {
  Loops loops = item.loops;
  loops.uops = uops_.data() + item.first_uop;
  return loops;
}

bool SlowLog::is_same(size_t index, const Loops &l, bool requantizes, bool tensor) const {
  if (index >= items_.size()) return false;
  const Item &item = items_[index];
  const Loops own = loops_of(item);
  const auto same_uop = [](const Uop &a, const Uop &b) { return a.dst == b.dst && a.src == b.src; };
  return item.requantizes == requantizes && item.tensor == tensor && own.count == l.count && own.iter_out == l.iter_out &&
         own.iter_in == l.iter_in && own.dst_out == l.dst_out && own.dst_in == l.dst_in && own.src_out == l.src_out &&
         own.src_in == l.src_in && std::equal(l.uops, l.uops + l.count, own.uops, same_uop);
}

void SlowLog::add(const Loops &l, bool requantizes, bool tensor, uint64_t cycles) {
  full_ = full_ || items_.size() == kMostItems || uops_.size() + l.count > kMostUops;
  if (full_) return;  // later instructions are counted in every run
  const size_t first_uop = uops_.size();
  uops_.insert(uops_.end(), l.uops, l.uops + l.count);
  items_.push_back({l, requantizes, tensor, cycles, first_uop});
}

void SlowLog::cut(size_t index) {
  full_ = false;
  if (index == items_.size()) return;
  uops_.resize(items_[index].first_uop);
  items_.resize(index);
}

uint64_t SlowSteps::cycles(const Machine &m, const lds_insn_alu &i) {
  const Loops loops = loops_of(m, i);
  const bool requantizes = i.alu_op == LDS_ALU_RQ, tensor = !requantizes && i.use_imm == 0;
  if (known_ && log_->is_same(next_, loops, requantizes, tensor)) return log_->items()[next_++].cycles;
  if (known_) {  // the first difference: from here on the pipeline's state matters, and must be computed again
    known_ = false;
    log_->cut(next_);
    for (const SlowLog::Item &item : log_->items()) (void)count(m, log_->loops_of(item), item.requantizes, item.tensor);
  }
  const uint64_t cycles = count(m, loops, requantizes, tensor);
  log_->add(loops, requantizes, tensor, cycles);
  return cycles;
}

uint64_t SlowSteps::count(const Machine &m, const Loops &loops, bool requantizes, bool tensor) {
  const uint64_t step = cycles_of(requantizes ? c_.rq_step_cycles : tensor ? c_.alu_tensor_step_cycles : c_.alu_imm_step_cycles);
  if (c_.rq_result_cycles != 0) return walk(m, loops, requantizes, tensor, step);
  return loops.steps() * step + (requantizes ? moves_of_src(loops) * cycles_of(c_.rq_operand_cycles) : 0);
}

// Both loops move all micro-ops alike: the micro-ops whose src differs from the one before are the same in every turn, and whether the
// first one of a turn differs depends on the loop alone.
uint64_t SlowSteps::moves_of_src(const Loops &l) {
  if (l.steps() == 0) return 0;
  const int64_t last = l.uops[l.count - 1].src, first = l.uops[0].src, ins = l.iter_in;
  uint64_t within = 0;
  for (uint32_t u = 1; u < l.count; ++u) within += l.uops[u].src != l.uops[u - 1].src;
  const bool moves_in = first + l.src_in != last, moves_out = first + l.src_out != last + (ins - 1) * l.src_in;
  const uint64_t turns = l.steps() / l.count, next_in = turns - l.iter_out, next_out = l.iter_out - 1u;
  return 1 + within * turns + (moves_in ? next_in : 0) + (moves_out ? next_out : 0);
}

// A tile can be read rq_result_cycles after the step that writes it. RQ keeps its operand tiles while src does not change, unless a step
// writes one of them: the next step then reads them again.
uint64_t SlowSteps::walk(const Machine &m, const Loops &l, bool requantizes, bool tensor, uint64_t step) {
  ready_.resize(m.g.depth[LDS_MEMORY_ACC] + kOperands, 0);
  const uint64_t begin = now_, operands = cycles_of(c_.rq_operand_cycles), result = cycles_of(c_.rq_result_cycles);
  uint32_t kept = kNone;
  for (uint32_t i = 0; i < l.iter_out && l.count != 0; ++i)
    for (uint32_t j = 0; j < l.iter_in; ++j) {
      m.poll->spend(Poll::kStep * l.count);
      for (uint32_t u = 0; u < l.count; ++u) {
        const uint32_t dst = l.uops[u].dst + i * l.dst_out + j * l.dst_in, src = l.uops[u].src + i * l.src_out + j * l.src_in;
        if (requantizes && src != kept) {
          now_ = std::max({now_, ready_[src], ready_[src + 1], ready_[src + 2]}) + operands;
          kept = src;
        }
        now_ = std::max(now_, ready_[dst]);
        if (tensor) now_ = std::max(now_, ready_[src]);
        if (requantizes && dst - src < kOperands) kept = kNone;
        now_ += step;
        ready_[dst] = now_ - 1 + result;
      }
    }
  const uint64_t cycles = now_ - begin;
  now_ += result;
  return cycles;
}

}  // namespace lds::sim
