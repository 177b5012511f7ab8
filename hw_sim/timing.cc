// Implementation of timing.h.
// SPDX-License-Identifier: Apache-2.0
#include "timing.h"

#include <algorithm>

#include "bursts.h"
#include "padding.h"
#include "read_channel.h"
#include "run.h"
#include "stop.h"

namespace lds::sim {
namespace {

constexpr uint64_t kNever = ~uint64_t{0};
constexpr uint64_t kFollowCycles = 2;  // from a LOAD's last grant to the first cycle in which the next one may start
constexpr int kReaders = 5;            // by LDS_SIM_READ_*, in the order of their priority

// A LOAD, or a batch of instructions, that still has bursts to request.
struct Reader {
  Bursts bursts{BusShape(64, TimingConstants{}), 0, 0, 0, 0};
  uint64_t start = 0;  // of the LOAD
  uint64_t beats = 0;
  bool keep_services = false;
  std::vector<Service> services;  // kept for LOADs with padding
};

struct Token {
  uint64_t cycle;
  uint32_t insn;
};

struct TokenTimes {
  std::vector<Token> pushed;
  size_t popped = 0;

  bool empty() const { return popped == pushed.size(); }
  Token front() const { return pushed[popped]; }
};

struct StageState {
  uint32_t position = 0;       // in its queue: the running instruction, or the next one
  uint32_t delivered = 0;      // instructions that fetch has put into the queue
  uint64_t free = 0;           // the cycle in which the previous instruction ended
  uint64_t follow = kNever;    // the first cycle in which a LOAD may start before that; kNever: in none
  std::vector<uint64_t> ends;  // ring buffer: of the previous instructions, as many as may run at a time
  bool loading = false;        // the running LOAD's end is not known yet
  lds_sim_event event{};       // of the running instruction
};

// What the devices of one bus share: the channel of reads, and the one of writes.
struct Bus {
  Bus(const TimingConstants &c, bool shared) : reads(c), is_shared(shared) {}

  ReadChannel reads;
  bool is_shared;
  uint64_t writes_free = 0;  // the cycle in which the last STORE that started has written its last beat
};

class Model {
 public:
  Model(const TimingInput &in, lds_sim_result *result, std::vector<lds_sim_event> *events, Bus *bus)
      : in_(in),
        c_(in.constants),
        bus_(in.bus_bits, in.constants),
        r_(*result),
        events_(events),
        shared_(*bus),
        deliverable_(in.program.insns.size(), kNever),
        end_(in.program.insns.size(), kNever) {}

  // --- for run_together -----------------------------------------------------------------------------
  void begin() {
    for (StageState &s : stages_) s.ends.assign(static_cast<size_t>(std::clamp<int64_t>(c_.loads_in_flight, 1, 64)), 0);
    request_batch(cycles_of(c_.fetch_start_cycles));
  }

  bool works() const { return out_.status == LDS_ERROR_NONE && !finished_ && !is_over_; }

  // The cycle in which an instruction can start first, unless a read that is served before lets another start earlier.
  uint64_t next_start() {
    next_stage_ = earliest_start();
    return next_stage_ < 0 ? kNever : start_cycle_;
  }

  void start_next() { start(next_stage_, start_cycle_); }

  uint64_t next_request() const { return *std::min_element(request_at_, request_at_ + kReaders); }

  // Admits the request of highest priority at `cycle`. True when it is the last one of a reader, whose end is then known; and when the
  // program ends here.
  bool admit(uint64_t cycle) {
    if (over_limit(cycle)) return true;
    int chosen = 0;  // the first in priority of those that request
    while (request_at_[chosen] > cycle) ++chosen;
    Reader &reader = readers_[chosen];
    const uint64_t beats = reader.bursts.next();
    const Service service = shared_.reads.enter(cycle, beats);
    reader.beats += beats;
    ++r_.read_bursts;
    if (reader.keep_services) reader.services.push_back(service);
    if (c_.loads_in_flight > 1 && (chosen == LDS_SIM_READ_INP || chosen == LDS_SIM_READ_WGT)) remember(service);
    if (!reader.bursts.done()) {
      request_at_[chosen] = cycle + interval_;
      return false;
    }
    request_at_[chosen] = kNever;
    r_.read_beats += reader.beats;
    complete(chosen, cycle, service.last);
    return true;
  }

  // Neither can an instruction start nor is anything read.
  void end() {
    if (!all_done()) blocked();
    is_over_ = true;
  }

  TimingOutcome outcome() {
    if (!finished_)
      for (const StageState &s : stages_) r_.cycles = std::max(r_.cycles, s.free);
    return out_;
  }

 private:
  // --- stages ---------------------------------------------------------------------------------------
  bool has_next(int s) const { return stages_[s].position < in_.done[s]; }
  uint32_t next_insn(int s) const { return in_.program.queue[s][stages_[s].position]; }

  bool all_done() const {
    for (int s = 0; s < 3; ++s)
      if (has_next(s)) return false;
    return true;
  }

  // The stage that can start an instruction first, and sets start_cycle_; -1: none.
  int earliest_start() {
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

  static bool reads(const Insn &insn) {
    return insn.fields.opcode == LDS_OPCODE_LOAD && !insn.is_nop() && insn.fields.u.memory.y_size != 0;
  }

  // The first cycle in which stage s can start `insn`: the load stage starts a LOAD when the one before has nothing left to do but to
  // receive what it requested.
  uint64_t free_for(int s, const Insn &insn) const {
    const StageState &state = stages_[s];
    if (s != LDS_STAGE_LOAD || state.ends.size() == 1 || !reads(insn)) return state.free;
    return std::min(state.free, std::max(state.follow, state.ends[state.position % state.ends.size()]));
  }

  static bool wait_for(const TokenTimes &tokens, uint64_t *cycle) {
    if (tokens.empty()) return false;
    *cycle = std::max(*cycle, tokens.front().cycle);
    return true;
  }

  uint32_t pop(bool wanted, int queue) { return wanted ? tokens_[queue].pushed[tokens_[queue].popped++].insn : ~0u; }

  void start(int s, uint64_t cycle) {
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
  uint64_t write_wait(int s, const Insn &insn, uint64_t cycle) {
    const lds_insn_memory &i = insn.fields.u.memory;
    if (!shared_.is_shared || insn.fields.opcode != LDS_OPCODE_STORE || i.memory_id == LDS_MEMORY_INP) return 0;
    if (i.x_size == 0 || i.y_size == 0) return 0;
    const uint64_t wait = std::max(shared_.writes_free, cycle) - cycle;
    uint64_t beats = 0;
    for (Bursts b = bursts_of(i); !b.done();) beats += b.next();
    shared_.writes_free = cycle + wait + beats;
    stages_[s].event.dram_cycles = static_cast<uint32_t>(std::min<uint64_t>(wait, ~0u));
    r_.stall_dram_cycles[s] += wait;
    return wait;
  }

  // The running instruction of stage s ends at `cycle`: its tokens can be popped, and the next can start, in that cycle.
  void finish(int s, uint64_t cycle) {
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
  uint64_t duration(const Insn &insn) {
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

  template <typename Loop>
  static uint64_t steps(const Loop &i) {
    return i.uop_end > i.uop_bgn ? uint64_t{i.uop_end - i.uop_bgn} * i.iter_out * i.iter_in : 0;
  }

  Bursts bursts_of(const lds_insn_memory &i) const {
    const uint64_t tile_bytes = in_.geometry.dram_tile_bytes[i.memory_id];
    const uint64_t begin = in_.regions[i.region].base + uint64_t{i.dram_base} * in_.geometry.dram_base_bytes[i.memory_id];
    return Bursts(bus_, begin, i.x_size * tile_bytes, dram_rows(i), i.x_stride * tile_bytes);
  }

  uint64_t store_cycles(const lds_insn &insn) {
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

  // --- loads ----------------------------------------------------------------------------------------
  static int reader_of(uint32_t memory) {
    switch (memory) {
      case LDS_MEMORY_UOP:
        return LDS_SIM_READ_UOP;
      case LDS_MEMORY_INP:
        return LDS_SIM_READ_INP;
      case LDS_MEMORY_WGT:
      case LDS_MEMORY_WGT_4BIT:
      case LDS_MEMORY_WGT_PLANES:
        return LDS_SIM_READ_WGT;
      default:
        return LDS_SIM_READ_ACC;
    }
  }

  void start_load(int s, uint64_t cycle, const lds_insn_memory &i) {
    Reader &reader = readers_[reader_of(i.memory_id)];
    reader.start = cycle;
    request_at_[reader_of(i.memory_id)] = cycle + cycles_of(c_.load_request_cycles) + i.y_pad_0;
    reader.bursts = bursts_of(i);
    reader.beats = 0;
    reader.keep_services = has_padding(i);
    reader.services.clear();
    stages_[s].loading = true;
  }

  // The last request was granted in the cycle `granted`, and its last beat comes in the cycle `last`.
  void finish_load(int s, uint64_t granted, uint64_t last) {
    StageState &state = stages_[s];
    const lds_insn_memory &i = in_.program.insns[state.event.insn].fields.u.memory;
    const Reader &reader = readers_[reader_of(i.memory_id)];
    const uint64_t asked = std::max(state.event.start, reader.start + cycles_of(c_.load_request_cycles) + i.y_pad_0);
    const uint64_t waited = last - std::min(last, asked + reader.beats);
    state.event.dram_cycles = static_cast<uint32_t>(std::min<uint64_t>(waited, ~0u));
    r_.stall_dram_cycles[s] += waited;
    uint64_t end = last + cycles_of(i.memory_id == LDS_MEMORY_UOP ? c_.load_uop_done_cycles : c_.load_done_cycles);
    uint64_t follow = std::max(granted, beat_before(cycles_of(c_.load_ahead_beats))) + kFollowCycles;
    if (reader.keep_services) {  // padding begins when the stage has nothing else to write
      const uint64_t padded = padding_done(i, std::max(reader.start + 1, state.free) - 1, reader.services, c_) + 1;
      follow = std::max(follow, padded);
      end = std::max(end, padded);
    }
    finish(s, end);
    state.follow = follow;
  }

  // Bursts have a beat at least, so that as many as the beats that are looked for, and one, suffice.
  void remember(const Service &service) {
    const size_t most = static_cast<size_t>(c_.load_ahead_beats) + 1;
    if (requested_.size() >= 2 * most) requested_.erase(requested_.begin(), requested_.end() - static_cast<std::ptrdiff_t>(most));
    requested_.push_back(service);
  }

  // The cycle of the beat behind which so many are left of all that the load stage has requested; 0: none.
  uint64_t beat_before(uint64_t left) const {
    for (size_t n = requested_.size(); n-- != 0;) {
      const uint64_t beats = requested_[n].last - requested_[n].first + 1;
      if (beats > left) return requested_[n].last - left;
      left -= beats;
    }
    return 0;
  }

  // --- the read channel -----------------------------------------------------------------------------
  void complete(int reader, uint64_t granted, uint64_t last) {
    if (reader == LDS_SIM_READ_FETCH) {
      next_delivery_ = last + cycles_of(c_.fetch_deliver_cycles);
      return deliver();
    }
    finish_load(reader == LDS_SIM_READ_INP || reader == LDS_SIM_READ_WGT ? LDS_STAGE_LOAD : LDS_STAGE_COMPUTE, granted, last);
  }

  // --- fetch ----------------------------------------------------------------------------------------
  void request_batch(uint64_t cycle) {
    const uint64_t size = static_cast<uint64_t>(std::max<int64_t>(1, c_.fetch_batch_instructions));
    const uint32_t batch = static_cast<uint32_t>(std::min<uint64_t>(size, in_.insn_count - batch_end_));
    if (batch == 0) return;
    Reader &reader = readers_[LDS_SIM_READ_FETCH];
    request_at_[LDS_SIM_READ_FETCH] = cycle;
    reader.beats = 0;
    // VTA's fetch does not split at boundaries: a batch is one burst, whatever its address and size.
    BusShape shape = bus_;
    if (c_.fetch_splits == 0) shape.boundary_bytes = shape.max_bytes = uint64_t{1} << 40;
    const uint64_t address = c_.fetch_splits == 0 ? 0 : in_.insn_address + uint64_t{batch_end_} * LDS_INSN_BYTES;
    reader.bursts = Bursts(shape, address, uint64_t{batch} * LDS_INSN_BYTES, 1, 0);
    batch_end_ += batch;
  }

  // Puts the batch's instructions into their queues, one a cycle, as far as there is room; then requests the next batch.
  void deliver() {
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

  // --- ends -----------------------------------------------------------------------------------------
  bool over_limit(uint64_t cycle) {
    if (in_.poll->ends(Poll::kBurst)) {
      out_ = {LDS_ERROR_ABORTED, 0, "the run was aborted"};
      return true;
    }
    if (in_.cycle_limit == 0 || cycle <= in_.cycle_limit) return false;
    out_ = {LDS_ERROR_CYCLE_LIMIT, first_unfinished(),
            format("needs more than the limit of %llu cycles", static_cast<unsigned long long>(in_.cycle_limit))};
    return true;
  }

  uint32_t first_unfinished() const {
    uint32_t first = ~0u;
    for (int s = 0; s < 3; ++s)
      if (has_next(s)) first = std::min(first, next_insn(s));
    return first == ~0u ? 0 : first;
  }

  void blocked() {
    out_ = {LDS_ERROR_DEADLOCK, delivered_,
            format("fetch waits for room in a queue of %lld instructions, which waits for a token from an instruction behind it",
                   static_cast<long long>(c_.stage_queue_entries))};
  }

  const TimingInput &in_;
  const TimingConstants &c_;
  const BusShape bus_;
  lds_sim_result &r_;
  std::vector<lds_sim_event> *events_;
  TimingOutcome out_;

  StageState stages_[3];
  TokenTimes tokens_[kTokenQueues + 1];
  Reader readers_[kReaders];
  uint64_t request_at_[kReaders] = {kNever, kNever, kNever, kNever, kNever};  // the cycle of each reader's next request
  const uint64_t interval_ = static_cast<uint64_t>(c_.read_request_interval_cycles);
  std::vector<Service> requested_;  // the newest bursts of the load stage
  Bus &shared_;
  std::vector<uint64_t> deliverable_;  // by instruction: the earliest cycle in which it can start
  std::vector<uint64_t> end_;          // by instruction: kNever until known
  int next_stage_ = -1;
  uint64_t start_cycle_ = kNever;
  uint64_t next_delivery_ = 0;
  uint32_t delivered_ = 0, batch_end_ = 0;
  size_t next_slow_ = 0;
  bool fetch_blocked_ = false, finished_ = false, is_over_ = false;
};

// Admits requests before `limit`, those of several devices in turn, burst by burst. True when a device may start another instruction now.
bool serve_reads_until(uint64_t limit, std::vector<Model> &devices, Bus &bus, size_t *last) {
  for (;;) {
    uint64_t first = kNever;
    for (const Model &m : devices)
      if (m.works()) first = std::min(first, m.next_request());
    if (first == kNever) return false;
    const uint64_t cycle = bus.reads.next_entry(first);
    if (cycle >= limit) return false;
    do *last = (*last + 1) % devices.size();
    while (!devices[*last].works() || devices[*last].next_request() > cycle);
    if (devices[*last].admit(cycle)) return true;
  }
}

void run_together(std::vector<Model> &devices, Bus &bus) {
  size_t last = devices.size() - 1;  // the device whose request was admitted last
  for (Model &m : devices) m.begin();
  for (;;) {
    Model *next = nullptr;
    uint64_t cycle = kNever;
    for (Model &m : devices) {
      if (!m.works()) continue;
      const uint64_t start = m.next_start();
      if (start < cycle) {
        cycle = start;
        next = &m;
      }
    }
    if (serve_reads_until(cycle, devices, bus, &last)) continue;  // a read is complete: another instruction may start now
    if (next == nullptr) break;
    next->start_next();
  }
  for (Model &m : devices)
    if (m.works()) m.end();
}

}  // namespace

TimingOutcome time_program(const TimingInput &input, lds_sim_result *result, std::vector<lds_sim_event> *events) {
  return time_together({{&input, result, events}}).front();
}

std::vector<TimingOutcome> time_together(const std::vector<TimedProgram> &programs) {
  Bus bus(programs.front().input->constants, programs.size() > 1);
  std::vector<Model> devices;
  devices.reserve(programs.size());
  for (const TimedProgram &p : programs) devices.emplace_back(*p.input, p.result, p.events, &bus);
  run_together(devices, bus);
  std::vector<TimingOutcome> outcomes;
  for (Model &m : devices) outcomes.push_back(m.outcome());
  return outcomes;
}

}  // namespace lds::sim
