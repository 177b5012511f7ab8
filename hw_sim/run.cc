// Implementation of run.h.
// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <algorithm>

#include "bfloat16.h"
#include "readers.h"
#include "stop.h"

namespace lds::sim {
namespace {

const char *const kStageNames[3] = {"load", "compute", "store"};
constexpr int kLoadFirst[3] = {0, 1, 2}, kStoreFirst[3] = {2, 1, 0};

class Sequencer {
 public:
  Sequencer(Machine &m, const Program &p, const RunControl &control, lds_sim_result *result)
      : m_(m), p_(p), control_(control), r_(*result), slow_(control.constants, control.slow) {}

  RunOutcome run() {
    const IeeeArithmetic ieee(m_.g.is_float);
    m_.registers = Registers{};
    try {
      while (!finished_) step();
    } catch (const Stop &stop) {
      out_.status = stop.status;
      out_.pc = at_;
      out_.address = stop.address;
      out_.message = stop.message;
    }
    return out_;
  }

 private:
  void step() {
    const int stage = choose();
    if (stage < 0) return deadlock();
    at_ = head(stage);
    m_.poll->spend(Poll::kInsn);
    const Insn &insn = p_.insns[at_];
    if (insn.refused) throw Stop{LDS_ERROR_BAD_INSTRUCTION, 0, ""};
    pop(stage, insn.fields.flags);
    for (Observer *o : control_.observers) o->before(at_, insn);
    execute(insn);
    push(stage, insn.fields.flags);
    ++out_.done[stage];
    ++r_.insns[insn.fields.opcode];
    ++r_.insns_done;
    if (control_.progress != nullptr) control_.progress->store(r_.insns_done, std::memory_order_relaxed);
  }

  bool empty(int stage) const { return out_.done[stage] == p_.queue[stage].size(); }
  uint32_t head(int stage) const { return p_.queue[stage][out_.done[stage]]; }

  // The stage whose next instruction runs next; -1: none can.
  int choose() const {
    if (control_.order != LDS_SIM_ORDER_PROGRAM) {
      const int chosen = first_of(control_.order == LDS_SIM_ORDER_LOAD_FIRST ? kLoadFirst : kStoreFirst);
      if (chosen >= 0) return chosen;
    }
    int best = -1;
    for (int s = 0; s < 3; ++s)
      if (!empty(s) && (best < 0 || head(s) < head(best)) && missing_token(s) == kNoQueue) best = s;
    return best;
  }

  // The first of these stages that can run and whose token queues have room: a stage that is far ahead waits for the others.
  int first_of(const int (&stages)[3]) const {
    for (const int s : stages)
      if (!empty(s) && missing_token(s) == kNoQueue && has_room(s)) return s;
    return -1;
  }

  bool has_room(int stage) const {
    const lds_insn_flags &f = p_.insns[head(stage)].fields.flags;
    const StageQueues &q = kStageQueues[stage];
    return (f.push_prev == 0 || tokens_[q.push_prev] < LDS_MAX_TOKENS) && (f.push_next == 0 || tokens_[q.push_next] < LDS_MAX_TOKENS);
  }

  // The token queue that a stage's next instruction waits for; kNoQueue: it waits for none.
  int missing_token(int stage) const {
    const lds_insn_flags &f = p_.insns[head(stage)].fields.flags;
    const StageQueues &q = kStageQueues[stage];
    if (f.pop_prev != 0 && tokens_[q.pop_prev] == 0) return q.pop_prev;
    if (f.pop_next != 0 && tokens_[q.pop_next] == 0) return q.pop_next;
    return kNoQueue;
  }

  void pop(int stage, const lds_insn_flags &f) {
    if (f.pop_prev != 0) --tokens_[kStageQueues[stage].pop_prev];
    if (f.pop_next != 0) --tokens_[kStageQueues[stage].pop_next];
  }

  void push(int stage, const lds_insn_flags &f) {
    if (f.push_prev != 0) push_to(kStageQueues[stage].push_prev);
    if (f.push_next != 0) push_to(kStageQueues[stage].push_next);
  }

  void push_to(int queue) {
    if (tokens_[queue] == LDS_MAX_TOKENS)
      throw Stop{LDS_ERROR_DEADLOCK, 0,
                 format("pushes a token from %s that the queue cannot hold: %u wait already", kStageNames[kPusher[queue]], LDS_MAX_TOKENS)};
    ++tokens_[queue];
  }

  void deadlock() {
    std::string waits;
    uint32_t first = p_.insns.empty() ? 0 : static_cast<uint32_t>(p_.insns.size() - 1);
    for (int s = 0; s < 3; ++s) {
      if (empty(s)) continue;
      const uint32_t pusher = kPusher[missing_token(s)];
      out_.waiting.insn[s] = head(s);
      out_.waiting.for_stage[s] = pusher;
      waits += format("%s%s at instruction %u waits for a token from %s", waits.empty() ? "" : "; ", kStageNames[s], head(s),
                      kStageNames[pusher]);
      first = std::min(first, head(s));
    }
    at_ = first;
    throw Stop{LDS_ERROR_DEADLOCK, 0, waits.empty() ? "the stream ends without FINISH: the device would never say that it is done" : waits};
  }

  void execute(const Insn &insn) {
    const lds_insn &f = insn.fields;
    switch (f.opcode) {
      case LDS_OPCODE_LOAD:
        exec_load(m_, f.u.memory);
        return count_memory(f.u.memory, r_.read_bytes[reader_of_load(f.u.memory.memory_id)]);
      case LDS_OPCODE_STORE:
        exec_store(m_, f);
        if (insn.stores_to_inp()) return;
        return count_memory(f.u.memory, r_.write_bytes);
      case LDS_OPCODE_GEMM:
        count_steps(uint64_t{f.u.gemm.iter_out} * f.u.gemm.iter_in, f.u.gemm.uop_bgn, f.u.gemm.uop_end, &r_.gemm_steps);
        exec_gemm(m_, f.u.gemm);
        if (f.u.gemm.reset == 0) r_.macs += last_steps_ * m_.g.lanes * m_.g.block;
        return;
      case LDS_OPCODE_DEPTHWISE: {
        const lds_insn_depthwise &i = f.u.depthwise;
        count_steps(uint64_t{i.iter_out} * i.iter_in, i.uop_bgn, i.uop_end, &r_.gemm_steps);
        exec_depthwise(m_, i);
        r_.macs += last_steps_ * m_.g.lanes * (i.rows * i.columns + i.wide);
        out_.slow_step_cycles.push_back(window_cycles(m_, i) * cycles_of(control_.constants.gemm_step_cycles));
        return;
      }
      case LDS_OPCODE_ALU:
        count_steps(uint64_t{f.u.alu.iter_out} * f.u.alu.iter_in, f.u.alu.uop_bgn, f.u.alu.uop_end, &r_.alu_steps);
        exec_alu(m_, f.u.alu);
        if (is_slow(f.u.alu)) out_.slow_step_cycles.push_back(slow_.cycles(m_, f.u.alu));
        return;
      case LDS_OPCODE_CONFIG:
        return exec_config(m_, f.u.config);
      default:
        finished_ = true;
    }
  }

  void count_memory(const lds_insn_memory &i, uint64_t &bytes) {
    bytes += uint64_t{i.x_size} * dram_rows(i) * m_.g.dram_tile_bytes[i.memory_id];
  }

  // Refuses to start an instruction that exceeds the limit by itself: a step takes at least a cycle, and loops can have 2^41 steps.
  void count_steps(uint64_t turns, uint32_t bgn, uint32_t end, uint64_t *counter) {
    last_steps_ = end > bgn ? turns * (end - bgn) : 0;
    steps_ += last_steps_;
    if (control_.cycle_limit != 0 && steps_ > control_.cycle_limit)
      throw Stop{LDS_ERROR_CYCLE_LIMIT, 0,
                 format("needs more than the limit of %llu cycles", static_cast<unsigned long long>(control_.cycle_limit))};
    *counter += last_steps_;
  }

  Machine &m_;
  const Program &p_;
  const RunControl &control_;
  lds_sim_result &r_;
  RunOutcome out_;
  SlowSteps slow_;
  uint32_t tokens_[kTokenQueues + 1] = {};  // the last one, of the queue that does not exist, stays 0
  uint64_t steps_ = 0, last_steps_ = 0;
  uint32_t at_ = 0;
  bool finished_ = false;
};

}  // namespace

RunOutcome run_program(Machine &m, const Program &program, const RunControl &control, lds_sim_result *result) {
  return Sequencer(m, program, control, result).run();
}

}  // namespace lds::sim
