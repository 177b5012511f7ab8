// The bus of several simulated devices: which of their jobs are timed together, and when all of them end.
//
// In:   jobs that start, programs that have run; looks of a host at a register.
// Out:  for each program the cycles that it takes beside the others of its group.
// Next: timing.cc, through lds_sim_time_together; device.cc calls it.
//
// A host takes no time. So the jobs that it starts before it looks at any of the devices start in the same cycle: they are a group, which
// its first look closes. (A host that never looks, but waits for an interrupt that reaches it in another way, closes it after a second.)
// A program computes at once what it computes; its job ends when all programs of the group have run, because only then is known how long
// each takes. A job that starts while a group is at work belongs to the next one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "lds_sim.h"

namespace lds::sim {

class SharedBus {
 public:
  void join(lds_sim *sim);
  void leave(lds_sim *sim);
  // A job of the device has been started.
  void started(lds_sim *sim);
  // A register of one of the devices is read, or somebody waits for one of them.
  void looked();
  // The job ends without a program that has run.
  void dropped(lds_sim *sim);
  // The program has run: waits for the others, then *result has the cycles of all together. Asks `stops` often; true ends the wait.
  void ran(lds_sim *sim, lds_sim_result *result, const std::function<bool()> &stops);

 private:
  enum State { kIdle, kStarted, kRan };

  struct Member {
    lds_sim *sim;
    State state = kIdle;
    bool is_next = false;  // of the group that begins when this one has ended
    lds_sim_result *result = nullptr;
  };

  Member &member(const lds_sim *sim);
  bool is_complete() const;
  void end_group();
  void forget(Member *m);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Member> members_;  // in the order of their turns on the bus
  bool closed_ = false;
};

}  // namespace lds::sim
