// Implementation of lds_simdev.h: a thread that runs jobs, the interrupt line, faults.
//
// In:   register accesses from any thread.
// Out:  the values that they read; memory changed by jobs; the level of the line.
// Next: driver/hal_sim.c.
// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <chrono>
#include <cstring>
#include <new>

namespace {

uint32_t crc32(const uint8_t *p, size_t n) {
  uint32_t crc = ~0u;
  for (size_t k = 0; k < n; ++k) {
    crc ^= p[k];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

// A timeout that the clock's arithmetic can represent.
std::chrono::nanoseconds limited(uint64_t timeout_ns) {
  return std::chrono::nanoseconds(timeout_ns < 1000000000000ull ? timeout_ns : 1000000000000ull);
}

}  // namespace

lds_simdev::lds_simdev(lds_sim *sim, const lds_hw_config &config, int page) : sim_(sim, lds_sim_destroy), config_(config), page_(page) {
  hash_ = crc32(reinterpret_cast<const uint8_t *>(&config_), 20);
  worker_ = std::thread([this] { work(); });
}

lds_simdev::~lds_simdev() {
  quit();
  if (bus_ != nullptr) bus_->leave(sim_.get());
}

void lds_simdev::share_bus(lds_simdev *other) {
  if (other->bus_ == nullptr) {
    other->bus_ = std::make_shared<lds::sim::SharedBus>();
    other->bus_->join(other->sim());
  }
  if (other == this) return;
  bus_ = other->bus_;
  bus_->join(sim());
}

// The host looks at the device: what it has started by now starts together.
void lds_simdev::look() {
  if (bus_ != nullptr) bus_->looked();
}

void lds_simdev::quit() {
  {
    Lock lock(mutex_);
    quits_ = true;
    stop(lock, kQuit);
  }
  if (worker_.joinable()) worker_.join();
}

int lds_simdev::line() {
  Lock lock(mutex_);
  return level_;
}

int lds_simdev::wait_line(uint64_t timeout_ns) {
  look();
  Lock lock(mutex_);
  line_changed_.wait_for(lock, limited(timeout_ns), [this] { return level_ != 0; });
  return level_;
}

void lds_simdev::wait_idle(uint64_t timeout_ns) {
  look();
  Lock lock(mutex_);
  idle_.wait_for(lock, limited(timeout_ns), [this] { return !busy_; });
}

void lds_simdev::on_irq(void (*notify)(void *, int), void *ctx) {
  Lock lock(mutex_);
  notify_ = notify;
  notify_ctx_ = ctx;
}

void lds_simdev::hw_reset() {
  Lock lock(mutex_);
  stop(lock, kHwReset);
}

int lds_simdev::order(const Fault &fault) {
  Lock lock(mutex_);
  if (fault.kind < LDS_FAULT_NONE || fault.kind > LDS_FAULT_LIES) return LDS_SIM_BAD_ARGUMENT;
  if (fault.kind == LDS_FAULT_BIT_FLIP ? segment_of_bit(fault.argument) == nullptr : fault.argument > ~uint32_t{0})
    return LDS_SIM_BAD_ARGUMENT;
  fault_ = fault;
  return LDS_SIM_OK;
}

uint64_t lds_simdev::result(lds_sim_result *out) {
  Lock lock(mutex_);
  *out = result_;
  return jobs_;
}

lds_sim *lds_simdev::sim() { return sim_.get(); }

int lds_simdev::map(uint64_t bus, void *memory, uint64_t size, uint32_t flags) {
  Lock lock(mutex_);
  const int status = lds_sim_map(sim_.get(), bus, memory, size, flags & LDS_SIM_READ_ONLY);
  if (status != LDS_SIM_OK) return status;
  try {
    segments_.push_back({bus, size, static_cast<uint8_t *>(memory), nullptr});
    if ((flags & LDS_SIM_GUARDED) != 0) segments_.back().guard = std::make_unique<lds::sim::Guard>(memory, size);
  } catch (const std::bad_alloc &) {
    return LDS_SIM_NO_MEMORY;
  }
  return LDS_SIM_OK;
}

int lds_simdev::remap(uint64_t bus, void *memory, uint64_t size, uint32_t flags) {
  {
    Lock lock(mutex_);
    if (busy_) return LDS_SIM_BUSY;
    lds_sim_unmap_all(sim_.get());
    segments_.clear();
  }
  return map(bus, memory, size, flags);
}

// --- the interrupt line ----------------------------------------------------------------------------------------------------------
void lds_simdev::update_line() {
  const int level = (regs_.irq_status & regs_.irq_mask) != 0 ? 1 : 0;
  if (level == level_) return;
  level_ = level;
  line_changed_.notify_all();
  if (notify_ != nullptr) notify_(notify_ctx_, level);
}

// --- jobs --------------------------------------------------------------------------------------------------------------------
void lds_simdev::start() {
  if (regs_.state == LDS_STATE_RUNNING) return;
  if (quits_) return end(LDS_ERROR_ABORTED, 0);
  regs_.state = LDS_STATE_RUNNING;
  regs_.error = regs_.error_pc = regs_.error_addr = regs_.pc = 0;
  done_reads_.reset();
  stop_ = kNone;
  stops_ = false;
  job_ = busy_ = true;
  if (bus_ != nullptr) bus_->started(sim_.get());
  wake_.notify_all();
}

// Asks the worker to end the job, and waits until it has (a dead device never does).
void lds_simdev::stop(Lock &lock, Stop how) {
  stop_ = how;
  stops_ = true;
  wake_.notify_all();
  while (busy_ && !stubborn(how)) {
    if (running_) lds_sim_abort(sim_.get());
    idle_.wait_for(lock, std::chrono::milliseconds(1));
  }
  if (how < kSoftReset || how == kQuit || busy_) return;
  regs_ = Regs{};
  end_faults(how);
  if (how == kHwReset) lds_sim_reset(sim_.get());
  update_line();
}

// Whether the running job has a fault that `how` does not end.
bool lds_simdev::stubborn(Stop how) const {
  switch (active_.kind) {
    case LDS_FAULT_HANG_RESET:
      return how < kSoftReset;
    case LDS_FAULT_HANG_HW_RESET:
      return how < kHwReset;
    case LDS_FAULT_DEAD:
      return how < kQuit;
    default:
      return false;
  }
}

void lds_simdev::work() {
  Lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return job_ || quits_; });
    if (quits_) {  // a job that was not started may remain, and the destructor waits for it
      if (busy_ && bus_ != nullptr) bus_->dropped(sim_.get());
      busy_ = false;
      idle_.notify_all();
      return;
    }
    job_ = false;
    active_ = Fault{};
    if (fault_.kind != LDS_FAULT_NONE && fault_.after_jobs-- == 0) {
      active_ = fault_;
      fault_ = Fault{};
    }
    execute(lock);
    active_ = Fault{};
    busy_ = false;
    ++jobs_;
    idle_.notify_all();
  }
}

void lds_simdev::execute(Lock &lock) {
  begin_faults();
  write_done(0);
  if (bus_ != nullptr && active_.kind >= LDS_FAULT_HANG && active_.kind <= LDS_FAULT_BUS_ERROR && active_.kind != LDS_FAULT_LOST_IRQ)
    bus_->dropped(sim_.get());
  if (active_.kind >= LDS_FAULT_HANG && active_.kind <= LDS_FAULT_DEAD) return hang(lock);
  if (active_.kind == LDS_FAULT_BUS_ERROR) {
    regs_.error_addr = static_cast<uint32_t>(regs_.insn_base + LDS_INSN_BYTES * active_.argument);
    return end(LDS_ERROR_BUS, static_cast<uint32_t>(active_.argument));
  }
  if (active_.kind == LDS_FAULT_BIT_FLIP) {
    if (const Segment *s = segment_of_bit(active_.argument))
      s->memory[active_.argument / 8u - s->base] ^= static_cast<uint8_t>(1u << active_.argument % 8u);
  }
  for (uint32_t r = 0; r < 8u && page_ == LDS_SIMDEV_NATIVE; ++r)
    lds_sim_set_region(sim_.get(), r, regs_.region_base[r], regs_.region_limit[r]);
  const uint64_t base = regs_.insn_base;
  const uint32_t count = regs_.insn_count;
  running_ = true;
  lock.unlock();
  const int status = lds_sim_run(sim_.get(), base, count, 0, &scratch_);
  if (bus_ != nullptr) bus_->ran(sim_.get(), &scratch_, [this] { return stops_.load(); });
  lock.lock();
  running_ = false;
  result_ = scratch_;
  regs_.pc = result_.insns_done;
  regs_.error_addr = static_cast<uint32_t>(result_.error_address);
  if (const Segment *s = lost_segment()) {
    regs_.error_addr = static_cast<uint32_t>(s->base);
    return end(LDS_ERROR_BUS, regs_.pc);
  }
  end(status < 0 ? LDS_ERROR_BAD_INSTRUCTION : static_cast<uint32_t>(status), result_.error_pc);
}

void lds_simdev::hang(Lock &lock) {
  regs_.pc = static_cast<uint32_t>(active_.argument);
  wake_.wait(lock, [this] { return quits_ || (stop_ != kNone && !stubborn(stop_)); });
  end(LDS_ERROR_ABORTED, regs_.pc);
}

const lds_simdev::Segment *lds_simdev::segment_of_bit(uint64_t bit) const {
  for (const Segment &s : segments_)
    if (bit / 8u >= s.base && bit / 8u - s.base < s.size) return &s;
  return nullptr;
}

const lds_simdev::Segment *lds_simdev::lost_segment() const {
  for (const Segment &s : segments_)
    if (s.guard != nullptr && s.guard->lost()) return &s;
  return nullptr;
}

// The compute stage writes 0 with its first instruction, perhaps long after START, and 1 with FINISH.
void lds_simdev::write_done(uint32_t value) {
  regs_.hls_done = value;
  regs_.hls_valid = true;
}

// The register pages of VTA's bitstreams cannot report an error: after one they never report DONE.
void lds_simdev::end(uint32_t error, uint32_t pc) {
  if (error != LDS_ERROR_NONE && page_ != LDS_SIMDEV_NATIVE && stop_ == kNone) return;
  regs_.error = error;
  regs_.error_pc = error == LDS_ERROR_NONE ? 0 : pc;
  regs_.state = error == LDS_ERROR_NONE ? LDS_STATE_DONE : LDS_STATE_ERROR;
  if (error == LDS_ERROR_NONE) write_done(1);
  if (active_.kind == LDS_FAULT_LOST_IRQ) return;
  regs_.irq_status |= error == LDS_ERROR_NONE ? LDS_IRQ_DONE : LDS_IRQ_ERROR;
  update_line();
}

// --- faults of the registers ------------------------------------------------------------------------------------------------------
void lds_simdev::begin_faults() {
  if (active_.kind == LDS_FAULT_LIES) done_reads_ = static_cast<uint32_t>(active_.argument);
  if (active_.kind == LDS_FAULT_ABSENT) all_read_ = static_cast<uint32_t>(active_.argument);
  if (active_.kind != LDS_FAULT_DONE_LINGERS) return;
  lingers_ = active_.argument;
  lingering_ = regs_.hls_done;
}

void lds_simdev::end_faults(Stop how) {
  lingers_ = 0;
  done_reads_.reset();
  if (how == kHwReset) all_read_.reset();
}

// --- the C functions -------------------------------------------------------------------------------------------------------------
lds_simdev *lds_simdev_create(const lds_hw_config *config, uint32_t bus_bits, int registers) {
  if (config == nullptr || registers < LDS_SIMDEV_NATIVE || registers > LDS_SIMDEV_HLS) return nullptr;
  lds_sim *sim = lds_sim_create(config, bus_bits);
  if (sim == nullptr) return nullptr;
  try {
    return new lds_simdev(sim, *config, registers);
  } catch (const std::exception &) {  // no memory, no thread
    return nullptr;
  }
}

void lds_simdev_destroy(lds_simdev *device) { delete device; }

void lds_simdev_quit(lds_simdev *device) { device->quit(); }

lds_sim *lds_simdev_sim(lds_simdev *device) { return device->sim(); }

int lds_simdev_share_bus(lds_simdev *device, lds_simdev *other) {
  if (device == nullptr || other == nullptr) return LDS_SIM_BAD_ARGUMENT;
  try {
    device->share_bus(other);
    return LDS_SIM_OK;
  } catch (const std::bad_alloc &) {
    return LDS_SIM_NO_MEMORY;
  }
}

int lds_simdev_map(lds_simdev *device, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags) {
  return device->map(bus_address, memory, size_bytes, flags);
}

int lds_simdev_remap(lds_simdev *device, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags) {
  return device->remap(bus_address, memory, size_bytes, flags);
}

int lds_simdev_irq(lds_simdev *device) { return device->line(); }

int lds_simdev_irq_wait(lds_simdev *device, uint64_t timeout_ns) { return device->wait_line(timeout_ns); }

void lds_simdev_idle_wait(lds_simdev *device, uint64_t timeout_ns) { device->wait_idle(timeout_ns); }

void lds_simdev_on_irq(lds_simdev *device, void (*notify)(void *ctx, int level), void *ctx) { device->on_irq(notify, ctx); }

void lds_simdev_hw_reset(lds_simdev *device) { device->hw_reset(); }

int lds_simdev_fault(lds_simdev *device, int fault, uint32_t after_jobs, uint64_t argument) {
  return device->order({fault, after_jobs, argument});
}

uint64_t lds_simdev_result(lds_simdev *device, lds_sim_result *out) { return device->result(out); }
