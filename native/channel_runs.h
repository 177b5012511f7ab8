// The range of constants with which a candidate is exact for one channel, computed from the channel's runs.
//
// In:   runs of a channel; the sum of a candidate's products at any accumulator.
// Out:  windows of constants: from every run's first accumulator a lower bound, from every last one an upper.
// Next: rescale_search.cc; rescale_stairs.cc, whose constants count for some outputs alone.
//
// Neighbouring candidates fail at the same few runs, so the runs that excluded one candidate are tested first for the next.
// SPDX-License-Identifier: Apache-2.0
#ifndef LDS_CHANNEL_RUNS_H
#define LDS_CHANNEL_RUNS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "digit_sum.h"
#include "lds_rescale.h"

namespace lds::rescale {

// Beyond any bound of a constant.
constexpr int64_t kFar = int64_t{1} << 60;

// A range of constants, and the positions in a RunOrder of the runs that bound it.
struct Window {
  int64_t least = -kFar, most = kFar;
  size_t least_place = 0, most_place = 0;

  bool open() const { return least <= most; }
  bool bounded() const { return least > -kFar / 2 || most < kFar / 2; }
  // The constant in its middle; where it has one bound, that.
  int64_t middle() const {
    if (least <= -kFar / 2) return most;
    return most >= kFar / 2 ? least : (least + most) >> 1;
  }
  void at_least(int64_t bound, size_t place) {
    if (bound > least) least = bound, least_place = place;
  }
  void at_most(int64_t bound, size_t place) {
    if (bound < most) most = bound, most_place = place;
  }
};

// The order in which runs are tested.
class RunOrder {
 public:
  explicit RunOrder(size_t count) : numbers_(count) { std::iota(numbers_.begin(), numbers_.end(), size_t{0}); }

  size_t size() const { return numbers_.size(); }
  size_t operator[](size_t place) const { return numbers_[place]; }

  // Moves the runs that made this window empty to the front, for the next candidate.
  void look_first(const Window &empty) {
    const auto [near, far] = std::minmax(empty.least_place, empty.most_place);
    for (const size_t place : {near, far}) {  // the near one leaves the other where it is
      const auto there = numbers_.begin() + static_cast<std::ptrdiff_t>(place);
      std::rotate(numbers_.begin(), there, there + 1);
    }
  }

 private:
  std::vector<size_t> numbers_;
};

// Of accumulators below zero, and from zero on; where signs share a constant, all is in the second.
struct Windows {
  Window below, above;
};

class ChannelRuns {
 public:
  ChannelRuns(const lds_rescale_runs &runs, size_t at)
      : runs_(runs), channel_(static_cast<size_t>(runs.channels[at])), begin_(channel_ * runs.runs), order_(runs.runs) {}

  double scale() const { return runs_.scale[channel_]; }
  // Whether the output is the same for all accumulators: then no search is needed.
  bool constant() const { return runs_.value[begin_] == runs_.value[begin_ + runs_.runs - 1]; }

  // Whether an exact constant exists for the candidate, or one for each sign. sum: int64_t(int64_t accumulator).
  template <class Sum>
  bool open(const Sum &sum, int64_t shift, bool is_signed, Windows *windows) {
    *windows = {};
    for (size_t place = 0; place < order_.size(); ++place) {
      const size_t at = begin_ + order_[place];
      Window &window = is_signed && runs_.last[at] < 0 ? windows->below : windows->above;
      const int64_t least = runs_.value[at] - runs_.tolerance, most = runs_.value[at] + runs_.tolerance;
      if (least > runs_.low) window.at_least(shifted(least, shift) - sum(runs_.first[at]), place);
      if (most < runs_.high) window.at_most(shifted(most + 1, shift) - 1 - sum(runs_.last[at]), place);
      if (window.open()) continue;
      order_.look_first(window);
      return false;
    }
    return true;
  }

 private:
  const lds_rescale_runs &runs_;
  size_t channel_, begin_;
  RunOrder order_;
};

}  // namespace lds::rescale

#endif  // LDS_CHANNEL_RUNS_H
