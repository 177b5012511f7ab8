// What lds_simdev.h says: registers, a thread that runs jobs, an interrupt line, faults.
//
// In:   register accesses from any thread.
// Out:  what they read; memory changed by jobs; the line.
// Next: driver/hal_sim.c.
//
// One mutex guards all registers; the worker holds it except while the simulator runs. The three register pages share
// one set of registers (Regs) and differ in `read` and `write` only.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "lds_simdev.h"

namespace {

using Lock = std::unique_lock<std::mutex>;

uint32_t crc32(const uint8_t *p, size_t n) {
  uint32_t crc = ~0u;
  for (size_t k = 0; k < n; ++k) {
    crc ^= p[k];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

void set_half(uint64_t *v, bool high, uint32_t half) {
  *v = high ? (*v & 0xFFFFFFFFu) | uint64_t{half} << 32 : (*v & ~uint64_t{0xFFFFFFFFu}) | half;
}

uint32_t half_of(uint64_t v, bool high) { return static_cast<uint32_t>(high ? v >> 32 : v); }

// What a job is made of, and how the last one ended.
struct Regs {
  uint64_t insn_base = 0;
  uint32_t insn_count = 0;
  uint64_t region_base[8] = {}, region_limit[8] = {};
  uint32_t state = LDS_STATE_IDLE, error = 0, error_pc = 0, error_addr = 0, pc = 0;
  uint32_t irq_status = 0, irq_mask = 0;
  bool hls_running[3] = {};  // load, compute and store restart by themselves
  bool hls_fetch = false;
};

struct Fault {
  int kind = LDS_FAULT_NONE;
  uint32_t after_jobs = 0;
  uint64_t argument = 0;
};

enum Stop { kNone = 0, kAbort = 1, kSoftReset = 2, kHwReset = 3, kQuit = 4 };

struct Segment {
  uint64_t base, size;
  uint8_t *memory;
};

}  // namespace

struct lds_simdev {
  lds_simdev(lds_sim *sim, const lds_hw_config &config, int page) : sim_(sim, lds_sim_destroy), config_(config), page_(page) {
    hash_ = crc32(reinterpret_cast<const uint8_t *>(&config_), 20);
    worker_ = std::thread([this] { work(); });
  }

  ~lds_simdev() {
    {
      Lock lock(mutex_);
      stop(lock, kQuit);
    }
    worker_.join();
  }

  uint32_t read(uint32_t offset) {
    Lock lock(mutex_);
    if (page_ == LDS_SIMDEV_CHISEL) return read_chisel(offset);
    if (page_ == LDS_SIMDEV_HLS) return read_hls(offset);
    return read_native(offset);
  }

  void write(uint32_t offset, uint32_t value) {
    Lock lock(mutex_);
    if (page_ == LDS_SIMDEV_CHISEL) return write_chisel(offset, value);
    if (page_ == LDS_SIMDEV_HLS) return write_hls(offset, value);
    write_native(lock, offset, value);
  }

  int line() {
    Lock lock(mutex_);
    return level_;
  }

  int wait_line(uint64_t timeout_ns) {
    Lock lock(mutex_);
    const auto limit = std::chrono::nanoseconds(timeout_ns < 1000000000000ull ? timeout_ns : 1000000000000ull);
    line_changed_.wait_for(lock, limit, [this] { return level_ != 0; });
    return level_;
  }

  void on_irq(void (*notify)(void *, int), void *ctx) {
    Lock lock(mutex_);
    notify_ = notify;
    notify_ctx_ = ctx;
  }

  void hw_reset() {
    Lock lock(mutex_);
    stop(lock, kHwReset);
  }

  void order(const Fault &fault) {
    Lock lock(mutex_);
    fault_ = fault;
  }

  uint64_t result(lds_sim_result *out) {
    Lock lock(mutex_);
    *out = result_;
    return jobs_;
  }

  lds_sim *sim() { return sim_.get(); }

  int map(uint64_t bus, void *memory, uint64_t size, uint32_t flags) {
    const int status = lds_sim_map(sim_.get(), bus, memory, size, flags);
    if (status == LDS_SIM_OK) segments_.push_back({bus, size, static_cast<uint8_t *>(memory)});
    return status;
  }

 private:
  // --- registers ---------------------------------------------------------------------------------------------------------------
  uint32_t read_native(uint32_t offset) {
    if (offset >= LDS_NATIVE_REGION_BASE && offset < LDS_NATIVE_REGION_BASE + 64u)
      return half_of(regs_.region_base[(offset - LDS_NATIVE_REGION_BASE) / 8u], (offset & 4u) != 0);
    if (offset >= LDS_NATIVE_REGION_LIMIT && offset < LDS_NATIVE_REGION_LIMIT + 64u)
      return half_of(regs_.region_limit[(offset - LDS_NATIVE_REGION_LIMIT) / 8u], (offset & 4u) != 0);
    if (offset >= LDS_NATIVE_CYCLES && offset < LDS_NATIVE_WRITE_BYTES + 8u) return half_of(counter(offset & ~4u), (offset & 4u) != 0);
    switch (offset) {
      case LDS_NATIVE_ID:
        return LDS_NATIVE_ID_VALUE;
      case LDS_NATIVE_VERSION:
        return LDS_NATIVE_VERSION_VALUE;
      case LDS_NATIVE_CONFIG_HASH:
        return hash_;
      case LDS_NATIVE_CAPS:
        return config_.capabilities;
      case LDS_NATIVE_STATUS:
        return regs_.state;
      case LDS_NATIVE_IRQ_STATUS:
        return regs_.irq_status;
      case LDS_NATIVE_IRQ_MASK:
        return regs_.irq_mask;
      case LDS_NATIVE_ERROR:
        return regs_.error;
      case LDS_NATIVE_ERROR_PC:
        return regs_.error_pc;
      case LDS_NATIVE_ERROR_ADDR:
        return regs_.error_addr;
      case LDS_NATIVE_INSN_BASE_LO:
      case LDS_NATIVE_INSN_BASE_HI:
        return half_of(regs_.insn_base, offset == LDS_NATIVE_INSN_BASE_HI);
      case LDS_NATIVE_INSN_COUNT:
        return regs_.insn_count;
      case LDS_NATIVE_INSN_PC:
        return running_ ? lds_sim_progress(sim_.get()) : regs_.pc;
      default:
        return 0;
    }
  }

  uint64_t counter(uint32_t offset) const {
    uint64_t read = 0;
    for (const uint64_t bytes : result_.read_bytes) read += bytes;
    switch (offset) {
      case LDS_NATIVE_CYCLES:
        return result_.cycles;
      case LDS_NATIVE_LOAD_BUSY:
      case LDS_NATIVE_COMPUTE_BUSY:
      case LDS_NATIVE_STORE_BUSY:
        return result_.busy_cycles[(offset - LDS_NATIVE_LOAD_BUSY) / 8u];
      case LDS_NATIVE_READ_BYTES:
        return read;
      default:
        return result_.write_bytes;
    }
  }

  void write_native(Lock &lock, uint32_t offset, uint32_t value) {
    const bool idle = regs_.state != LDS_STATE_RUNNING;  // what describes a job is kept while one runs
    if (offset >= LDS_NATIVE_REGION_BASE && offset < LDS_NATIVE_REGION_BASE + 64u && idle)
      return set_half(&regs_.region_base[(offset - LDS_NATIVE_REGION_BASE) / 8u], (offset & 4u) != 0, value);
    if (offset >= LDS_NATIVE_REGION_LIMIT && offset < LDS_NATIVE_REGION_LIMIT + 64u && idle)
      return set_half(&regs_.region_limit[(offset - LDS_NATIVE_REGION_LIMIT) / 8u], (offset & 4u) != 0, value);
    switch (offset) {
      case LDS_NATIVE_CTRL:
        if ((value & LDS_CTRL_ABORT) != 0 && !idle) stop(lock, kAbort);
        if ((value & LDS_CTRL_SOFT_RESET) != 0) stop(lock, kSoftReset);
        if ((value & LDS_CTRL_START) != 0) start();
        return;
      case LDS_NATIVE_IRQ_STATUS:
        regs_.irq_status &= ~value;
        return update_line();
      case LDS_NATIVE_IRQ_MASK:
        regs_.irq_mask = value & (LDS_IRQ_DONE | LDS_IRQ_ERROR);
        return update_line();
      case LDS_NATIVE_INSN_BASE_LO:
      case LDS_NATIVE_INSN_BASE_HI:
        if (idle) set_half(&regs_.insn_base, offset == LDS_NATIVE_INSN_BASE_HI, value);
        return;
      case LDS_NATIVE_INSN_COUNT:
        if (idle) regs_.insn_count = value;
        return;
      default:
        return;
    }
  }

  uint32_t read_chisel(uint32_t offset) const {
    switch (offset) {
      case LDS_CHISEL_CONTROL:
        return regs_.state == LDS_STATE_DONE ? LDS_CHISEL_DONE : regs_.state == LDS_STATE_RUNNING ? LDS_CHISEL_START : 0u;
      case LDS_CHISEL_CYCLES:
        return static_cast<uint32_t>(result_.cycles);
      case LDS_CHISEL_INSN_COUNT:
        return regs_.insn_count;
      case LDS_CHISEL_INSN_BASE:
        return static_cast<uint32_t>(regs_.insn_base);
      default:
        return 0;
    }
  }

  void write_chisel(uint32_t offset, uint32_t value) {
    switch (offset) {
      case LDS_CHISEL_CONTROL:
        if ((value & LDS_CHISEL_START) != 0) start();
        return;
      case LDS_CHISEL_INSN_COUNT:
        regs_.insn_count = value;
        return;
      case LDS_CHISEL_INSN_BASE:
        regs_.insn_base = value;
        return;
      default:  // bases are ORed into addresses; ours are 0
        return;
    }
  }

  uint32_t read_hls(uint32_t offset) const {
    if (offset == LDS_HLS_COMPUTE_DONE) return regs_.state == LDS_STATE_DONE ? 1u : 0u;
    if (offset == LDS_HLS_FETCH_INSN_COUNT) return regs_.insn_count;
    return offset == LDS_HLS_FETCH_INSN_BASE ? static_cast<uint32_t>(regs_.insn_base) : 0u;
  }

  void write_hls(uint32_t offset, uint32_t value) {
    const uint32_t controls[3] = {LDS_HLS_LOAD_CONTROL, LDS_HLS_COMPUTE_CONTROL, LDS_HLS_STORE_CONTROL};
    for (int k = 0; k < 3; ++k)
      if (offset == controls[k]) regs_.hls_running[k] = value == LDS_HLS_AUTO_RESTART;
    if (offset == LDS_HLS_FETCH_INSN_COUNT) regs_.insn_count = value;
    if (offset == LDS_HLS_FETCH_INSN_BASE) regs_.insn_base = value;
    if (offset == LDS_HLS_FETCH_CONTROL) regs_.hls_fetch = (value & LDS_HLS_START) != 0;
    if (regs_.hls_fetch && regs_.hls_running[0] && regs_.hls_running[1] && regs_.hls_running[2]) {
      regs_.hls_fetch = false;
      start();
    }
  }

  void update_line() {
    const int level = (regs_.irq_status & regs_.irq_mask) != 0 ? 1 : 0;
    if (level == level_) return;
    level_ = level;
    line_changed_.notify_all();
    if (notify_ != nullptr) notify_(notify_ctx_, level);
  }

  // --- jobs --------------------------------------------------------------------------------------------------------------------
  void start() {
    if (regs_.state == LDS_STATE_RUNNING) return;
    regs_.state = LDS_STATE_RUNNING;
    regs_.error = regs_.error_pc = regs_.error_addr = regs_.pc = 0;
    stop_ = kNone;
    job_ = busy_ = true;
    wake_.notify_all();
  }

  // Asks the worker to leave the job, and waits until it did (a dead device never does).
  void stop(Lock &lock, Stop how) {
    stop_ = how;
    wake_.notify_all();
    while (busy_ && !stubborn(how)) {
      if (running_) lds_sim_abort(sim_.get());
      idle_.wait_for(lock, std::chrono::milliseconds(1));
    }
    if (how < kSoftReset || how == kQuit || busy_) return;
    regs_ = Regs{};
    if (how == kHwReset) lds_sim_reset(sim_.get());
    update_line();
  }

  // Whether the fault that the running job has does not yield to `how`.
  bool stubborn(Stop how) const {
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

  void work() {
    Lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return job_ || stop_ == kQuit; });
      if (stop_ == kQuit) return;
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

  void execute(Lock &lock) {
    if (active_.kind >= LDS_FAULT_HANG && active_.kind <= LDS_FAULT_DEAD) return hang(lock);
    if (active_.kind == LDS_FAULT_BUS_ERROR) {
      regs_.error_addr = static_cast<uint32_t>(regs_.insn_base + LDS_INSN_BYTES * active_.argument);
      return end(LDS_ERROR_BUS, static_cast<uint32_t>(active_.argument));
    }
    if (active_.kind == LDS_FAULT_BIT_FLIP) flip(active_.argument);
    for (uint32_t r = 0; r < 8u && page_ == LDS_SIMDEV_NATIVE; ++r)
      lds_sim_set_region(sim_.get(), r, regs_.region_base[r], regs_.region_limit[r]);
    const uint64_t base = regs_.insn_base;
    const uint32_t count = regs_.insn_count;
    running_ = true;
    lock.unlock();
    const int status = lds_sim_run(sim_.get(), base, count, 0, &scratch_);
    lock.lock();
    running_ = false;
    result_ = scratch_;
    regs_.pc = result_.insns_done;
    regs_.error_addr = static_cast<uint32_t>(result_.error_address);
    end(status < 0 ? LDS_ERROR_BAD_INSTRUCTION : static_cast<uint32_t>(status), result_.error_pc);
  }

  void hang(Lock &lock) {
    regs_.pc = static_cast<uint32_t>(active_.argument);
    wake_.wait(lock, [this] { return stop_ == kQuit || (stop_ != kNone && !stubborn(stop_)); });
    end(LDS_ERROR_ABORTED, regs_.pc);
  }

  void flip(uint64_t bit) {
    for (const Segment &s : segments_)
      if (bit / 8u >= s.base && bit / 8u - s.base < s.size) s.memory[bit / 8u - s.base] ^= static_cast<uint8_t>(1u << bit % 8u);
  }

  // The pages of VTA's bitstreams have no way to say that something went wrong: they never say that they are done.
  void end(uint32_t error, uint32_t pc) {
    if (error != LDS_ERROR_NONE && page_ != LDS_SIMDEV_NATIVE && stop_ == kNone) return;
    regs_.error = error;
    regs_.error_pc = error == LDS_ERROR_NONE ? 0 : pc;
    regs_.state = error == LDS_ERROR_NONE ? LDS_STATE_DONE : LDS_STATE_ERROR;
    if (active_.kind == LDS_FAULT_LOST_IRQ) return;
    regs_.irq_status |= error == LDS_ERROR_NONE ? LDS_IRQ_DONE : LDS_IRQ_ERROR;
    update_line();
  }

  std::unique_ptr<lds_sim, void (*)(lds_sim *)> sim_;
  const lds_hw_config config_;
  const int page_;
  uint32_t hash_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_, idle_, line_changed_;
  Regs regs_;
  Fault fault_, active_;
  Stop stop_ = kNone;
  bool job_ = false;      // to be begun
  bool busy_ = false;     // from START until the worker is through
  bool running_ = false;  // in lds_sim_run
  int level_ = 0;
  uint64_t jobs_ = 0;
  lds_sim_result result_{}, scratch_{};
  std::vector<Segment> segments_;
  void (*notify_)(void *, int) = nullptr;
  void *notify_ctx_ = nullptr;
  std::thread worker_;
};

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

lds_sim *lds_simdev_sim(lds_simdev *device) { return device->sim(); }

int lds_simdev_map(lds_simdev *device, uint64_t bus_address, void *memory, uint64_t size_bytes, uint32_t flags) {
  return device->map(bus_address, memory, size_bytes, flags);
}

uint32_t lds_simdev_read32(lds_simdev *device, uint32_t offset) { return device->read(offset); }

void lds_simdev_write32(lds_simdev *device, uint32_t offset, uint32_t value) { device->write(offset, value); }

int lds_simdev_irq(lds_simdev *device) { return device->line(); }

int lds_simdev_irq_wait(lds_simdev *device, uint64_t timeout_ns) { return device->wait_line(timeout_ns); }

void lds_simdev_on_irq(lds_simdev *device, void (*notify)(void *ctx, int level), void *ctx) { device->on_irq(notify, ctx); }

void lds_simdev_hw_reset(lds_simdev *device) { device->hw_reset(); }

void lds_simdev_fault(lds_simdev *device, int fault, uint32_t after_jobs, uint64_t argument) {
  device->order({fault, after_jobs, argument});
}

uint64_t lds_simdev_result(lds_simdev *device, lds_sim_result *out) { return device->result(out); }
