// The readers of one device: fetch, and the LOADs of UOP, INP, WGT and ACC, which share its read channel.
//
// In:   what each is to read, and the cycle of its first request.
// Out:  one request after another, that of the highest priority first; the beats that each reader has got.
// Next: read_channel.h serves a request; device_timing.cc begins reads and learns when they end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "access.h"
#include "bursts.h"
#include "constants.h"
#include "lds_isa.h"
#include "lds_sim.h"
#include "read_channel.h"

namespace lds::sim {

constexpr uint64_t kNever = ~uint64_t{0};
constexpr int kReaders = 5;  // by LDS_SIM_READ_*, in the order of their priority

// The reader of a LOAD of one of LDS_MEMORY_*.
inline int reader_of_load(uint32_t memory) {
  switch (scratchpad_of(memory)) {
    case LDS_MEMORY_UOP:
      return LDS_SIM_READ_UOP;
    case LDS_MEMORY_INP:
      return LDS_SIM_READ_INP;
    case LDS_MEMORY_WGT:
      return LDS_SIM_READ_WGT;
    default:
      return LDS_SIM_READ_ACC;
  }
}

// A LOAD, or a batch of instructions, that is being read.
struct Read {
  Bursts bursts{BusShape(64, TimingConstants{}), 0, 0, 0, 0};
  uint64_t start = 0;  // of the LOAD
  uint64_t beats = 0;  // of the bursts that were requested
  uint64_t last = 0;   // the cycle of the last one
  bool keep_services = false;
  std::vector<Service> services;  // kept for LOADs with padding
};

class Readers {
 public:
  explicit Readers(const TimingConstants &c)
      : interval_(static_cast<uint64_t>(c.read_request_interval_cycles)),
        remembers_(c.loads_in_flight > 1),
        most_remembered_(static_cast<size_t>(c.load_ahead_beats) + 1) {}

  // The reader's first request is at `request`; `start` is that of the LOAD.
  void begin(int reader, uint64_t start, uint64_t request, const Bursts &bursts, bool keep_services) {
    Read &read = reads_[reader];
    read.bursts = bursts;
    read.start = start;
    read.beats = 0;
    read.keep_services = keep_services;
    read.services.clear();
    request_at_[reader] = request;
  }

  const Read &operator[](int reader) const { return reads_[reader]; }

  // The cycle of the next request of any reader.
  uint64_t next_request() const { return *std::min_element(request_at_, request_at_ + kReaders); }

  // The request of the highest priority at `cycle` enters the channel. The reader that has nothing left to request; -1: none.
  int admit(uint64_t cycle, ReadChannel *channel) {
    int chosen = 0;  // the first in priority of those that request
    while (request_at_[chosen] > cycle) ++chosen;
    Read &read = reads_[chosen];
    const uint64_t beats = read.bursts.next();
    const Service service = channel->enter(cycle, beats);
    read.beats += beats;
    read.last = service.last;
    if (read.keep_services) read.services.push_back(service);
    if (remembers_ && (chosen == LDS_SIM_READ_INP || chosen == LDS_SIM_READ_WGT)) remember(service);
    request_at_[chosen] = read.bursts.done() ? kNever : cycle + interval_;
    return read.bursts.done() ? chosen : -1;
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

 private:
  // Bursts have a beat at least, so that as many as the beats that are looked for, and one, suffice.
  void remember(const Service &service) {
    if (requested_.size() >= 2 * most_remembered_)
      requested_.erase(requested_.begin(), requested_.end() - static_cast<std::ptrdiff_t>(most_remembered_));
    requested_.push_back(service);
  }

  const uint64_t interval_;
  const bool remembers_;
  const size_t most_remembered_;
  Read reads_[kReaders];
  uint64_t request_at_[kReaders] = {kNever, kNever, kNever, kNever, kNever};  // the cycle of each reader's next request
  std::vector<Service> requested_;                                            // the newest bursts of the load stage
};

}  // namespace lds::sim
