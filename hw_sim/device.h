// A simulated device as a board sees it: registers, a thread that runs jobs, an interrupt line, injected faults. Private to hw_sim/.
//
// In:   the calls of lds_simdev.h.
// Out:  the struct that they work on.
// Next: device.cc runs jobs; pages.cc implements each register page, and starts and stops jobs.
//
// One mutex guards all registers, and the list of segments; the worker holds it except while the simulator runs. The three register pages
// share one set of registers (Regs) and differ in `read` and `write` only. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "guard.h"
#include "lds_simdev.h"
#include "shared_bus.h"

struct lds_simdev {
  using Lock = std::unique_lock<std::mutex>;

  // The parameters of a job, and the result of the last one.
  struct Regs {
    uint64_t insn_base = 0;
    uint32_t insn_count = 0;
    uint64_t region_base[8] = {}, region_limit[8] = {};
    uint32_t state = LDS_STATE_IDLE, error = 0, error_pc = 0, error_addr = 0, pc = 0;
    uint32_t irq_status = 0, irq_mask = 0;
    bool hls_running[3] = {};  // load, compute and store restart by themselves
    bool hls_fetch = false;
    uint32_t hls_done = 0;   // COMPUTE_DONE
    bool hls_valid = false;  // COMPUTE_DONE has been written since COMPUTE_DONE_VALID was read
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
    std::unique_ptr<lds::sim::Guard> guard;  // nullptr: the memory cannot be truncated
  };

  lds_simdev(lds_sim *sim, const lds_hw_config &config, int page);
  ~lds_simdev();
  uint32_t read(uint32_t offset);
  void write(uint32_t offset, uint32_t value);
  int line();
  int wait_line(uint64_t timeout_ns);
  void wait_idle(uint64_t timeout_ns);
  void on_irq(void (*notify)(void *, int), void *ctx);
  void hw_reset();
  void quit();
  int order(const Fault &fault);
  uint64_t result(lds_sim_result *out);
  lds_sim *sim();
  void share_bus(lds_simdev *other);
  int map(uint64_t bus, void *memory, uint64_t size, uint32_t flags);
  int remap(uint64_t bus, void *memory, uint64_t size, uint32_t flags);

 private:
  // --- pages.cc
  uint32_t read_native(uint32_t offset);
  uint64_t counter(uint32_t offset) const;
  void write_native(Lock &lock, uint32_t offset, uint32_t value);
  uint32_t read_chisel(uint32_t offset) const;
  void write_chisel(uint32_t offset, uint32_t value);
  uint32_t read_hls(uint32_t offset);
  uint32_t read_done(uint32_t offset);
  std::optional<uint32_t> instead(uint32_t offset) const;
  void write_hls(uint32_t offset, uint32_t value);

  // --- device.cc, which calls no function of pages.cc
  void write_done(uint32_t value);
  void begin_faults();
  void end_faults(Stop how);
  void update_line();
  void start();
  void stop(Lock &lock, Stop how);
  bool stubborn(Stop how) const;
  void work();
  void execute(Lock &lock);
  void hang(Lock &lock);
  const Segment *segment_of_bit(uint64_t bit) const;
  const Segment *lost_segment() const;
  void end(uint32_t error, uint32_t pc);
  void look();

  std::unique_ptr<lds_sim, void (*)(lds_sim *)> sim_;
  const lds_hw_config config_;
  const int page_;
  uint32_t hash_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_, idle_, line_changed_;
  Regs regs_;
  Fault fault_, active_;
  uint64_t lingers_ = 0;              // how many more reads see COMPUTE_DONE and its valid bit as before the job
  uint32_t lingering_ = 0;            // the value of COMPUTE_DONE for these reads
  std::optional<uint32_t> all_read_;  // the value that every register reads, as on an empty bus
  std::optional<uint32_t> done_reads_;
  Stop stop_ = kNone;
  std::atomic<bool> stops_{false};            // stop_ is not kNone, for whoever waits without the lock
  std::shared_ptr<lds::sim::SharedBus> bus_;  // nullptr: it has one of its own
  bool quits_ = false;                        // no further job is started
  bool job_ = false;                          // a job waits to be started
  bool busy_ = false;                         // from START until the worker has finished
  bool running_ = false;                      // the worker is in lds_sim_run
  int level_ = 0;
  uint64_t jobs_ = 0;
  lds_sim_result result_{}, scratch_{};
  std::vector<Segment> segments_;
  void (*notify_)(void *, int) = nullptr;
  void *notify_ctx_ = nullptr;
  std::thread worker_;
};
