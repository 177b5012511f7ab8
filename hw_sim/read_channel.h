// The single channel through which a device reads DRAM, or all devices of one bus.
//
// In:   requests, in the order in which the arbiter admits them.
// Out:  the cycles in which the beats of each arrive.
// Next: readers.h arbitrates between fetch and the LOADs of a device, timing.cc between devices.
//
// At most one request enters in a cycle. Requests are served in order, one beat a cycle. A request that finds the queue empty waits for
// `read_latency_cycles`; one that enters while another waits does not wait again. Memory works on `read_bursts_outstanding` bursts at a
// time, so that the `read_burst_extra_cycles` of one pass while those before it are served; with 1 they precede every burst. At most
// `read_requests_in_flight` are in flight; the slot of a request is free in the cycle after its last beat, and in the cycle of a last beat
// no request enters, because the tag memory has one port.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "constants.h"

namespace lds::sim {

// The service of one burst, in cycles: no beat comes before `first`, and the last one at `last`.
struct Service {
  uint64_t first, last;
};

class ReadChannel {
 public:
  ReadChannel(const TimingConstants &c, bool at_worst)
      : at_worst_(at_worst),
        latency_(static_cast<uint64_t>(c.read_latency_cycles)),
        extra_(static_cast<uint64_t>(c.read_burst_extra_cycles)),
        slots_(static_cast<size_t>(std::clamp<int64_t>(c.read_requests_in_flight, 1, 1024))),
        lasts_(slots_, 0),
        served_(static_cast<size_t>(std::clamp<int64_t>(c.read_bursts_outstanding, 1, 1024)), 0) {}

  // The first cycle from `cycle` on in which a request may enter. (Changes nothing: an earlier request may still come first.)
  uint64_t next_entry(uint64_t cycle) const {
    cycle = std::max(cycle, after_entry_);
    size_t oldest = oldest_, under_way = under_way_;
    for (;;) {
      while (under_way != 0 && lasts_[oldest] < cycle) {
        oldest = after(oldest);
        --under_way;
      }
      if (under_way == 0 || (lasts_[oldest] != cycle && under_way < slots_)) return cycle;
      cycle = lasts_[oldest] + 1;
    }
  }

  // A request enters at `cycle`, a value of next_entry().
  Service enter(uint64_t cycle, uint64_t beats) {
    while (under_way_ != 0 && lasts_[oldest_] < cycle) {
      oldest_ = after(oldest_);
      --under_way_;
    }
    // Nothing waited in the queue. At worst, the latency is not over when those that did have been served: they can be served sooner.
    const bool found_none = cycle > taken_ || !used_;
    const uint64_t waited = found_none ? cycle + latency_ : at_worst_ ? std::max(cycle + latency_, taken_) : taken_;
    taken_ = std::max(waited, served_[turn_]);
    const uint64_t begins = std::max(taken_ + extra_, last_);
    last_ = begins + beats;
    served_[turn_] = last_;
    if (++turn_ == served_.size()) turn_ = 0;
    used_ = true;
    after_entry_ = cycle + 1;
    size_t place = oldest_ + under_way_;
    if (place >= slots_) place -= slots_;
    lasts_[place] = last_;
    ++under_way_;
    return {begins + 1, last_};
  }

 private:
  size_t after(size_t place) const { return place + 1 == slots_ ? 0 : place + 1; }

  bool at_worst_;
  uint64_t latency_, extra_;
  size_t slots_;
  std::vector<uint64_t> lasts_;   // ring buffer: last beats of the requests in flight
  std::vector<uint64_t> served_;  // ring buffer: last beats of the newest requests, as many as memory works on at a time
  size_t turn_ = 0;
  size_t oldest_ = 0, under_way_ = 0;
  uint64_t taken_ = 0;  // the cycle in which memory began with the newest request
  uint64_t last_ = 0;   // its last beat
  uint64_t after_entry_ = 0;
  bool used_ = false;
};

}  // namespace lds::sim
