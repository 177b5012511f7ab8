// Poll for a request to end the run, after a bounded amount of work, however long an instruction takes.
//
// In:   the amount of work done; the flag that lds_sim_abort sets, the function that lds_sim_on_poll was given.
// Out:  Stop with LDS_ERROR_ABORTED.
// Next: run.cc and device_timing.cc poll between instructions and bursts, exec_*.cc between the parts of one instruction.
//
// The unit of work is a multiply-accumulate; other operations count by their approximate cost relative to it. A few million take
// milliseconds with the slowest kernels: a user does not notice the delay, and polls are too rare to slow a run down.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "lds_isa.h"
#include "stop.h"

namespace lds::sim {

class Poll {
 public:
  // The largest amount of work between two polls.
  static constexpr uint64_t kPart = uint64_t{1} << 22;
  static constexpr uint64_t kInsn = uint64_t{1} << 13, kBurst = uint64_t{1} << 11, kVisit = 256, kByte = 4, kLane = 16, kStep = 256;

  std::atomic<bool> abort{false};
  int (*ask)(void *) = nullptr;  // a result other than 0 ends the run
  void *ask_context = nullptr;

  void begin() {
    abort.store(false);
    spent_ = 0;
    next_ = Clock::now() + kInterval;
  }

  // Adds work that was done, or is about to be. Throws Stop when the run is to end.
  void spend(uint64_t cost) {
    if (ends(cost)) throw Stop{LDS_ERROR_ABORTED, 0, "the run was aborted"};
  }

  bool ends(uint64_t cost) {
    spent_ += cost;
    return spent_ >= kPart && ends_now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kInterval{20};  // between two calls of `ask`, which may be slow

  bool ends_now() {
    spent_ = 0;
    if (ask != nullptr && Clock::now() >= next_) {
      if (ask(ask_context) != 0) abort.store(true);
      next_ = Clock::now() + kInterval;
    }
    return abort.load(std::memory_order_relaxed);
  }

  uint64_t spent_ = 0;
  Clock::time_point next_{};
};

}  // namespace lds::sim
