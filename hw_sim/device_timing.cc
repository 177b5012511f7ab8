// Implementation of device_timing.h.
// SPDX-License-Identifier: Apache-2.0
#include "device_timing.h"

#include <algorithm>

#include "padding.h"
#include "stop.h"

namespace lds::sim {
namespace {

constexpr uint64_t kFollowCycles = 2;  // from a LOAD's last grant to the first cycle in which the next one may start

// Whether an instruction reads DRAM.
bool reads(const Insn &insn) { return insn.fields.opcode == LDS_OPCODE_LOAD && !insn.is_nop() && insn.fields.u.memory.y_size != 0; }

bool wait_for(const TokenTimes &tokens, uint64_t *cycle) {
  if (tokens.empty()) return false;
  *cycle = std::max(*cycle, tokens.front().cycle);
  return true;
}

uint64_t count_of(Bursts bursts) {
  uint64_t count = 0;
  for (; !bursts.done(); ++count) bursts.next();
  return count;
}

template <typename Loop>
uint64_t steps(const Loop &i) {
  return i.uop_end > i.uop_bgn ? uint64_t{i.uop_end - i.uop_bgn} * i.iter_out * i.iter_in : 0;
}

}  // namespace

DeviceTiming::DeviceTiming(const TimingInput &in, lds_sim_result *result, std::vector<lds_sim_event> *events, Bus *bus)
    : in_(in),
      c_(in.constants),
      bus_shape_(in.bus_bits, in.constants),
      r_(*result),
      events_(events),
      readers_(in.constants),
      bus_(*bus),
      deliverable_(in.program.insns.size(), kNever),
      end_(in.program.insns.size(), kNever) {}

void DeviceTiming::begin() {
  for (StageState &s : stages_) s.ends.assign(static_cast<size_t>(std::clamp<int64_t>(c_.loads_in_flight, 1, 64)), 0);
  request_batch(cycles_of(c_.fetch_start_cycles));
}

uint64_t DeviceTiming::next_start() {
  next_stage_ = earliest_start();
  return next_stage_ < 0 ? kNever : start_cycle_;
}

bool DeviceTiming::admit(uint64_t cycle) {
  if (over_limit(cycle)) return true;
  const int reader = readers_.admit(cycle, &bus_.reads);
  ++r_.read_bursts;
  if (reader < 0) return false;
  r_.read_beats += readers_[reader].beats;
  if (reader == LDS_SIM_READ_FETCH) {
    next_delivery_ = readers_[reader].last + cycles_of(c_.fetch_deliver_cycles);
    deliver();
  } else {
    finish_load(reader == LDS_SIM_READ_INP || reader == LDS_SIM_READ_WGT ? LDS_STAGE_LOAD : LDS_STAGE_COMPUTE, cycle);
  }
  return true;
}

void DeviceTiming::end() {
  if (!all_done()) blocked();
  is_over_ = true;
}

TimingOutcome DeviceTiming::outcome() {
  if (!finished_)
    for (const StageState &s : stages_) r_.cycles = std::max(r_.cycles, s.free);
  return out_;
}

// --- stages -----------------------------------------------------------------------------------------------------------------------
bool DeviceTiming::all_done() const {
  for (int s = 0; s < 3; ++s)
    if (has_next(s)) return false;
  return true;
}

// The stage that can start an instruction first, and sets start_cycle_; -1: none.
int DeviceTiming::earliest_start() {
  int best = -1;
  start_cycle_ = kNever;
  for (int s = 0; s < 3; ++s) {
    const StageState &state = stages_[s];
    if (state.loading || !has_next(s) || state.position >= state.delivered) continue;
    const Insn &insn = in_.program.insns[next_insn(s)];
    const StageQueues &q = kStageQueues[s];
    uint64_t cycle = std::max(free_for(s, insn), deliverable_[next_insn(s)]);
    if (insn.fields.flags.pop_prev != 0 && !wait_for(tokens_[q.pop_prev], &cycle)) continue;
    if (insn.fields.flags.pop_next != 0 && !wait_for(tokens_[q.pop_next], &cycle)) continue;
    if (cycle < start_cycle_) {
      start_cycle_ = cycle;
      best = s;
    }
  }
  return best;
}

// The first cycle in which stage s can start `insn`: the load stage starts a LOAD when the one before has nothing left to do but to
// receive what it requested.
uint64_t DeviceTiming::free_for(int s, const Insn &insn) const {
  const StageState &state = stages_[s];
  if (s != LDS_STAGE_LOAD || state.ends.size() == 1 || !reads(insn)) return state.free;
  return std::min(state.free, std::max(state.follow, state.ends[state.position % state.ends.size()]));
}

uint32_t DeviceTiming::pop(bool wanted, int queue) { return wanted ? tokens_[queue].pushed[tokens_[queue].popped++].insn : ~0u; }

void DeviceTiming::start(int s, uint64_t cycle) {
  if (over_limit(cycle)) return;
  StageState &state = stages_[s];
  const uint32_t index = next_insn(s);
  const Insn &insn = in_.program.insns[index];
  lds_sim_event &e = state.event;
  e.insn = index;
  e.stage = static_cast<uint32_t>(s);
  e.enter = state.free;
  e.ready = std::max(state.free, deliverable_[index]);
  e.start = std::max(state.free, cycle);  // an event begins when the one before it has ended, whenever its own requests began
  e.from_prev = pop(insn.fields.flags.pop_prev != 0, kStageQueues[s].pop_prev);
  e.from_next = pop(insn.fields.flags.pop_next != 0, kStageQueues[s].pop_next);
  e.dram_cycles = 0;
  r_.stall_fetch_cycles[s] += e.ready - e.enter;
  r_.stall_token_cycles[s] += e.start - e.ready;
  if (reads(insn)) return start_load(s, cycle, insn.fields.u.memory);
  if (insn.fields.opcode == LDS_OPCODE_FINISH) {
    finished_ = true;
    r_.cycles = cycle;
    return finish(s, cycle);
  }
  finish(s, cycle + write_wait(s, insn, cycle) + duration(insn));
}

// How long a STORE waits for those of other devices that started before it. Those of one device follow each other in any case.
uint64_t DeviceTiming::write_wait(int s, const Insn &insn, uint64_t cycle) {
  const lds_insn_memory &i = insn.fields.u.memory;
  if (!bus_.is_shared || insn.fields.opcode != LDS_OPCODE_STORE || i.memory_id == LDS_MEMORY_INP) return 0;
  if (i.x_size == 0 || i.y_size == 0) return 0;
  uint64_t beats = 0;
  for (Bursts b = bursts_of(i); !b.done();) beats += b.next();
  const uint64_t wait = bus_.wait_to_write(cycle, beats);
  stages_[s].event.dram_cycles = static_cast<uint32_t>(std::min<uint64_t>(wait, ~0u));
  r_.stall_dram_cycles[s] += wait;
  return wait;
}

// The running instruction of stage s ends at `cycle`: its tokens can be popped, and the next can start, in that cycle.
void DeviceTiming::finish(int s, uint64_t cycle) {
  StageState &state = stages_[s];
  const lds_insn_flags &flags = in_.program.insns[state.event.insn].fields.flags;
  state.event.end = cycle;
  r_.busy_cycles[s] += cycle - state.event.start;
  if (flags.push_prev != 0) tokens_[kStageQueues[s].push_prev].pushed.push_back({cycle, state.event.insn});
  if (flags.push_next != 0) tokens_[kStageQueues[s].push_next].pushed.push_back({cycle, state.event.insn});
  if (events_ != nullptr) events_->push_back(state.event);
  end_[state.event.insn] = cycle;
  state.free = cycle;
  state.follow = kNever;
  state.loading = false;
  state.ends[state.position++ % state.ends.size()] = cycle;
  if (fetch_blocked_) deliver();
}

// The cycles of an instruction other than LOAD.
uint64_t DeviceTiming::duration(const Insn &insn) {
  const lds_insn &f = insn.fields;
  switch (f.opcode) {
    case LDS_OPCODE_GEMM:
      return cycles_of(c_.gemm_overhead_cycles) + steps(f.u.gemm) * cycles_of(c_.gemm_step_cycles);
    case LDS_OPCODE_DEPTHWISE:
      return cycles_of(c_.depthwise_overhead_cycles) + in_.slow_step_cycles[next_slow_++];
    case LDS_OPCODE_ALU:
      if (is_slow(f.u.alu)) return cycles_of(c_.rq_overhead_cycles) + in_.slow_step_cycles[next_slow_++];
      return cycles_of(c_.alu_overhead_cycles) +
             steps(f.u.alu) * cycles_of(f.u.alu.use_imm != 0 ? c_.alu_imm_step_cycles : c_.alu_tensor_step_cycles);
    case LDS_OPCODE_CONFIG:
      return cycles_of(c_.config_cycles);
    case LDS_OPCODE_LOAD:  // without rows, but perhaps with padding; or a no-op
      return f.u.memory.x_size == 0 ? cycles_of(c_.nop_cycles) : padding_done(f.u.memory, 0, {}, c_) + 1;
    case LDS_OPCODE_STORE:
      return f.u.memory.x_size == 0 || f.u.memory.y_size == 0 ? cycles_of(c_.nop_cycles) : store_cycles(f);
    default:
      return cycles_of(c_.nop_cycles);
  }
}

Bursts DeviceTiming::bursts_of(const lds_insn_memory &i) const {
  const uint64_t tile_bytes = in_.geometry.dram_tile_bytes[i.memory_id];
  const uint64_t begin = in_.regions[i.region].base + uint64_t{i.dram_base} * in_.geometry.dram_base_bytes[i.memory_id];
  const auto at = [&](uint64_t address) {
    return Bursts(bus_shape_, address, i.x_size * tile_bytes, dram_rows(i), i.x_stride * tile_bytes);
  };
  Bursts worst = at(begin);
  if (in_.place_bytes == 0) return worst;
  uint64_t most = count_of(worst);
  for (uint64_t shift = in_.place_bytes; shift < bus_shape_.boundary_bytes; shift += in_.place_bytes) {
    const Bursts other = at(begin + shift);
    const uint64_t count = count_of(other);
    if (count <= most) continue;
    worst = other;
    most = count;
  }
  return worst;
}

uint64_t DeviceTiming::store_cycles(const lds_insn &insn) {
  const lds_insn_memory &i = insn.u.memory;  // the fields that LOAD and STORE begin with
  const lds_insn_store &store = insn.u.store;
  const uint64_t tiles = uint64_t{i.x_size} * i.y_size;
  const uint64_t moves = store.operand_step != 0 ? i.y_size : 1;
  const uint64_t rq = store.requantize == 0 ? 0 : cycles_of(c_.store_rq_cycles) + moves * cycles_of(c_.rq_operand_cycles);
  const uint64_t rq_step = store.requantize == 0 ? 0 : cycles_of(c_.rq_step_cycles);
  if (i.memory_id == LDS_MEMORY_INP) return cycles_of(c_.store_inp_cycles) + rq + tiles * std::max<uint64_t>(1, rq_step);
  uint64_t beats = 0, bursts = 0;
  for (Bursts b = bursts_of(i); !b.done(); ++bursts) beats += b.next();
  r_.write_beats += beats;
  r_.write_bursts += bursts;
  return cycles_of(c_.store_overhead_cycles) + bursts * cycles_of(c_.store_burst_cycles) + rq +
         std::max(tiles * std::max(cycles_of(c_.store_tile_cycles), rq_step), beats);
}

// --- loads ------------------------------------------------------------------------------------------------------------------------
void DeviceTiming::start_load(int s, uint64_t cycle, const lds_insn_memory &i) {
  const uint64_t request = cycle + cycles_of(c_.load_request_cycles) + i.y_pad_0;
  readers_.begin(reader_of_load(i.memory_id), cycle, request, bursts_of(i), has_padding(i));
  stages_[s].loading = true;
}

// The last request was granted in the cycle `granted`.
void DeviceTiming::finish_load(int s, uint64_t granted) {
  StageState &state = stages_[s];
  const lds_insn_memory &i = in_.program.insns[state.event.insn].fields.u.memory;
  const Read &read = readers_[reader_of_load(i.memory_id)];
  const uint64_t asked = std::max(state.event.start, read.start + cycles_of(c_.load_request_cycles) + i.y_pad_0);
  const uint64_t waited = read.last - std::min(read.last, asked + read.beats);
  state.event.dram_cycles = static_cast<uint32_t>(std::min<uint64_t>(waited, ~0u));
  r_.stall_dram_cycles[s] += waited;
  uint64_t end = read.last + cycles_of(i.memory_id == LDS_MEMORY_UOP ? c_.load_uop_done_cycles : c_.load_done_cycles);
  uint64_t follow = std::max(granted, readers_.beat_before(cycles_of(c_.load_ahead_beats))) + kFollowCycles;
  if (read.keep_services) {  // padding begins when the stage has nothing else to write
    const uint64_t padded = padding_done(i, std::max(read.start + 1, state.free) - 1, read.services, c_) + 1;
    follow = std::max(follow, padded);
    end = std::max(end, padded);
  }
  finish(s, end);
  state.follow = follow;
}

// --- fetch ------------------------------------------------------------------------------------------------------------------------
void DeviceTiming::request_batch(uint64_t cycle) {
  const uint64_t size = static_cast<uint64_t>(std::max<int64_t>(1, c_.fetch_batch_instructions));
  const uint32_t batch = static_cast<uint32_t>(std::min<uint64_t>(size, in_.insn_count - batch_end_));
  if (batch == 0) return;
  // VTA's fetch does not split at boundaries: a batch is one burst, whatever its address and size.
  BusShape shape = bus_shape_;
  if (c_.fetch_splits == 0) shape.boundary_bytes = shape.max_bytes = uint64_t{1} << 40;
  const uint64_t address = c_.fetch_splits == 0 ? 0 : in_.insn_address + uint64_t{batch_end_} * LDS_INSN_BYTES;
  readers_.begin(LDS_SIM_READ_FETCH, cycle, cycle, Bursts(shape, address, uint64_t{batch} * LDS_INSN_BYTES, 1, 0), false);
  batch_end_ += batch;
}

// Puts the batch's instructions into their queues, one a cycle, as far as there is room; then requests the next batch.
void DeviceTiming::deliver() {
  fetch_blocked_ = false;
  const uint32_t known = static_cast<uint32_t>(in_.program.insns.size());  // instructions after a refused one are not decoded
  for (; delivered_ < std::min(batch_end_, known); ++delivered_) {
    const int s = in_.program.insns[delivered_].stage;
    StageState &state = stages_[s];
    const uint32_t entries = static_cast<uint32_t>(std::max<int64_t>(1, c_.stage_queue_entries));
    if (state.delivered >= entries) {
      const uint64_t room = end_[in_.program.queue[s][state.delivered - entries]];
      if (room == kNever) {
        fetch_blocked_ = true;
        return;
      }
      next_delivery_ = std::max(next_delivery_, room + 1);
    }
    deliverable_[delivered_] = next_delivery_++;
    ++state.delivered;
  }
  if (delivered_ == batch_end_) request_batch(next_delivery_ - 1 + cycles_of(c_.fetch_next_cycles));
}

// --- how a program ends -----------------------------------------------------------------------------------------------------------
bool DeviceTiming::over_limit(uint64_t cycle) {
  if (in_.poll->ends(Poll::kBurst)) {
    out_ = {LDS_ERROR_ABORTED, 0, "the run was aborted"};
    return true;
  }
  if (in_.cycle_limit == 0 || cycle <= in_.cycle_limit) return false;
  out_ = {LDS_ERROR_CYCLE_LIMIT, first_unfinished(),
          format("needs more than the limit of %llu cycles", static_cast<unsigned long long>(in_.cycle_limit))};
  return true;
}

uint32_t DeviceTiming::first_unfinished() const {
  uint32_t first = ~0u;
  for (int s = 0; s < 3; ++s)
    if (has_next(s)) first = std::min(first, next_insn(s));
  return first == ~0u ? 0 : first;
}

void DeviceTiming::blocked() {
  out_ = {LDS_ERROR_DEADLOCK, delivered_,
          format("fetch waits for room in a queue of %lld instructions, which waits for a token from an instruction behind it",
                 static_cast<long long>(c_.stage_queue_entries))};
}

}  // namespace lds::sim
