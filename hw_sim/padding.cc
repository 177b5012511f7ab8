// Implementation of padding.h.
// SPDX-License-Identifier: Apache-2.0
#include "padding.h"

#include <algorithm>

namespace lds::sim {
namespace {

// Advances through time, between the load's own beats.
class FillPort {
 public:
  FillPort(uint64_t start, const std::vector<Service> &services, uint64_t delay) : now_(start), services_(services), delay_(delay) {}

  // Uses `cycles` cycles without a beat.
  void fill(uint64_t cycles) {
    while (cycles != 0) {
      skip_beats();
      const uint64_t free = next_ < services_.size() ? first_beat() - now_ : cycles;
      const uint64_t taken = std::min(free, cycles);
      now_ += taken;
      cycles -= taken;
    }
  }

  void step(uint64_t cycles) { now_ += cycles; }
  uint64_t now() const { return now_; }

 private:
  uint64_t first_beat() const { return services_[next_].first + delay_; }
  uint64_t last_beat() const { return services_[next_].last + delay_; }

  // Advances past the burst whose beats occupy the port, and past those that follow it directly.
  void skip_beats() {
    while (next_ < services_.size() && first_beat() <= now_) {
      now_ = std::max(now_, last_beat() + 1);
      ++next_;
    }
  }

  uint64_t now_;
  const std::vector<Service> &services_;
  uint64_t delay_;
  size_t next_ = 0;
};

}  // namespace

uint64_t padding_done(const lds_insn_memory &i, uint64_t start, const std::vector<Service> &services, const TimingConstants &c) {
  const uint64_t width = uint64_t{i.x_pad_0} + i.x_size + i.x_pad_1;
  const uint64_t sides = uint64_t{i.x_pad_0} + i.x_pad_1;
  const uint64_t rate = static_cast<uint64_t>(std::max<int64_t>(1, c.pad_tiles_per_cycle));
  const auto cycles = [rate](uint64_t tiles) { return (tiles + rate - 1) / rate; };
  FillPort port(start + static_cast<uint64_t>(c.pad_start_cycles), services, static_cast<uint64_t>(c.pad_beat_cycles));
  port.fill(cycles(i.y_pad_0 * width));
  if (sides != 0)
    port.fill(cycles(i.y_size * sides));
  else if (i.y_pad_1 != 0)
    port.step(i.y_size);
  port.fill(cycles(i.y_pad_1 * width));
  return port.now();
}

}  // namespace lds::sim
