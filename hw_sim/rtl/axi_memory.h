// Memory behind an AXI4 port, with the times of hw_sim's timing model: one read channel, one write channel, both in order.
//
// In:   requests and words that the device puts on the bus, cycle by cycle.
// Out:  beats and acknowledgements, each in its cycle; the bytes of host memory.
// Next: rtl_device.cc drives the clock.
//
// A read that finds the queue empty is served `latency` cycles after the arbiter has granted it, in the cycle before its address is on
// the bus; one that enters while another waits does not wait again. Memory works on `outstanding` bursts at a time, so that the
// `burst_extra` cycles of one pass while those before it are served; with 1 they precede every burst.
// Words are always accepted; a burst of writes is acknowledged two cycles after its last word.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "lds_rtl.h"

namespace lds::rtl {

enum Response : uint8_t { kOkay = 0, kSlaveError = 2, kDecodeError = 3 };

struct Beat {
  bool valid = false, last = false;
  uint8_t response = kOkay;
};

class AxiMemory {
 public:
  explicit AxiMemory(uint32_t beat_bytes) : beat_bytes_(beat_bytes) {}

  bool map(uint64_t base, uint8_t *memory, uint64_t size, bool read_only) {
    for (const Segment &s : segments_)
      if (base < s.base + s.size && s.base < base + size) return false;
    segments_.push_back({base, size, memory, read_only});
    return true;
  }
  void unmap_all() { segments_.clear(); }
  void set_latency(uint32_t latency, uint32_t burst_extra, uint32_t outstanding) {
    latency_ = latency;
    extra_ = burst_extra;
    served_.assign(std::max(outstanding, 1u), last_);
    turn_ = 0;
  }
  const lds_rtl_traffic &traffic() const { return traffic_; }

  // --- reads: an address in cycle `now`; the beat of cycle `now`, its bytes in `data`.
  void read_address(uint64_t now, uint64_t address, uint32_t beats) {
    const uint64_t entry = now - 1;
    const uint64_t waited = entry > taken_ || !used_ ? entry + latency_ : taken_;
    taken_ = std::max(waited, served_[turn_]);
    used_ = true;
    const uint64_t begins = std::max(taken_ + extra_, last_);
    reads_.push_back({address, beats, begins + 1});
    last_ = begins + beats;
    served_[turn_] = last_;
    turn_ = (turn_ + 1) % served_.size();
    ++traffic_.read_bursts;
  }

  Beat read_beat(uint64_t now, uint8_t *data) {
    if (reads_.empty() || reads_.front().begins > now) return {};
    Burst &b = reads_.front();
    Beat beat;
    beat.valid = true;
    beat.last = b.beats == 1;
    const Segment *s = segment(b.address);
    if (s == nullptr) {
      beat.response = kDecodeError;
      std::memset(data, 0, beat_bytes_);
    } else {
      copy(*s, b.address, data, nullptr);
    }
    b.address += beat_bytes_;
    ++traffic_.read_beats;
    if (--b.beats == 0) reads_.pop_front();
    return beat;
  }

  // --- writes: an address and a word in cycle `now`, in either order; whether a burst is acknowledged in it.
  void write_address(uint64_t address, uint32_t beats) {
    writes_.push_back({address, beats, 0});
    ++traffic_.write_bursts;
    place_words();
  }
  void write_word(uint64_t now, const uint8_t *data, bool last) {
    words_.insert(words_.end(), data, data + beat_bytes_);
    ++traffic_.write_beats;
    if (last) ends_.push_back(now + 2);
    place_words();
  }
  Beat acknowledgement(uint64_t now) {
    Beat beat;
    if (ends_.empty() || ends_.front() > now || responses_.empty()) return beat;
    beat.valid = true;
    beat.response = responses_.front();
    ends_.pop_front();
    responses_.pop_front();
    return beat;
  }

 private:
  struct Segment {
    uint64_t base, size;
    uint8_t *memory;
    bool read_only;
  };
  struct Burst {
    uint64_t address;
    uint32_t beats;
    uint64_t begins;
  };

  const Segment *segment(uint64_t address) const {
    for (const Segment &s : segments_)  // a beat may lie in the segment partly: the rest reads as zeros
      if (address < s.base + s.size && s.base < address + beat_bytes_) return &s;
    return nullptr;
  }

  void copy(const Segment &s, uint64_t address, uint8_t *read, const uint8_t *write) const {
    for (uint32_t k = 0; k < beat_bytes_; ++k) {
      const uint64_t at = address + k - s.base;
      if (read != nullptr) read[k] = at < s.size ? s.memory[at] : 0;
      if (write != nullptr && at < s.size) s.memory[at] = write[k];
    }
  }

  void place_words() {
    while (!writes_.empty() && words_.size() >= beat_bytes_) {
      Burst &b = writes_.front();
      uint8_t word[128];
      std::copy_n(words_.begin(), beat_bytes_, word);
      words_.erase(words_.begin(), words_.begin() + beat_bytes_);
      const Segment *s = segment(b.address);
      if (s == nullptr) write_response_ = kDecodeError;
      if (s != nullptr && s->read_only) write_response_ = kSlaveError;
      if (s != nullptr && !s->read_only) copy(*s, b.address, nullptr, word);
      b.address += beat_bytes_;
      if (--b.beats == 0) {
        responses_.push_back(write_response_);
        write_response_ = kOkay;
        writes_.pop_front();
      }
    }
  }

  const uint32_t beat_bytes_;
  uint32_t latency_ = 17, extra_ = 0;
  std::vector<Segment> segments_;
  std::deque<Burst> reads_, writes_;
  std::deque<uint8_t> words_, responses_;
  std::deque<uint64_t> ends_;
  uint64_t taken_ = 0, last_ = 0;       // the cycle in which memory begins with the newest request; its last beat
  std::vector<uint64_t> served_ = {0};  // ring buffer: last beats of the newest requests, as many as memory works on at a time
  size_t turn_ = 0;
  bool used_ = false;
  uint8_t write_response_ = kOkay;
  lds_rtl_traffic traffic_{};
};

}  // namespace lds::rtl
