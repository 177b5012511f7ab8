// The constants that a candidate leaves one channel, by its runs.
//
// In:   runs of a channel; the sum of a candidate's products at any accumulator.
// Out:  windows of constants: from every run's first accumulator a lower bound, from every last one an upper.
// Next: rescale_search.cc.
//
// Candidates that lie near each other fail at the same few runs: those that refused one are looked at first with the next.
// SPDX-License-Identifier: Apache-2.0
#ifndef LDS_CHANNEL_RUNS_H
#define LDS_CHANNEL_RUNS_H

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "lds_rescale.h"

namespace lds::rescale {

// Farther than any bound of a constant.
constexpr int64_t kFar = int64_t{1} << 60;

inline int64_t shifted(int64_t x, int64_t left) { return x * (int64_t{1} << left); }

struct Window {
  int64_t least = -kFar, most = kFar;

  bool open() const { return least <= most; }
  bool bounded() const { return least > -kFar / 2 || most < kFar / 2; }
  // The constant in its middle; where it has one bound, that.
  int64_t middle() const {
    if (least <= -kFar / 2) return most;
    return most >= kFar / 2 ? least : (least + most) >> 1;
  }
};

// Of accumulators below zero, and from zero on; where signs share a constant, all is in the second.
struct Windows {
  Window below, above;
};

class ChannelRuns {
 public:
  ChannelRuns(const lds_rescale_runs &runs, size_t at)
      : runs_(runs), channel_(static_cast<size_t>(runs.channels[at])), begin_(channel_ * runs.runs), order_(runs.runs) {
    std::iota(order_.begin(), order_.end(), size_t{0});
  }

  double scale() const { return runs_.scale[channel_]; }
  // Whether the output is the same everywhere: then nothing is searched for.
  bool constant() const { return runs_.value[begin_] == runs_.value[begin_ + runs_.runs - 1]; }

  // Whether the candidate leaves a constant, or one of each sign. sum: int64_t(int64_t accumulator).
  template <class Sum>
  bool open(const Sum &sum, int64_t shift, bool is_signed, Windows *windows) {
    *windows = {};
    std::array<Places, 2> places{};
    for (size_t place = 0; place < order_.size(); ++place) {
      const size_t at = begin_ + order_[place];
      const bool below = is_signed && runs_.last[at] < 0;
      Window &window = below ? windows->below : windows->above;
      Places &own = places[below ? 0 : 1];
      const int64_t least = runs_.value[at] - runs_.tolerance, most = runs_.value[at] + runs_.tolerance;
      if (least > runs_.low) {
        const int64_t bound = shifted(least, shift) - sum(runs_.first[at]);
        if (bound > window.least) window.least = bound, own.least = place;
      }
      if (most < runs_.high) {
        const int64_t bound = shifted(most + 1, shift) - 1 - sum(runs_.last[at]);
        if (bound < window.most) window.most = bound, own.most = place;
      }
      if (!window.open()) {
        look_first(own);
        return false;
      }
    }
    return true;
  }

 private:
  // Where in order_ the runs are that a window's bounds are of.
  struct Places {
    size_t least, most;
  };

  void look_first(const Places &places) {
    // The nearer one first: it leaves the other where it is.
    for (const size_t place : {std::min(places.least, places.most), std::max(places.least, places.most)}) {
      const auto there = order_.begin() + static_cast<std::ptrdiff_t>(place);
      std::rotate(order_.begin(), there, there + 1);
    }
  }

  const lds_rescale_runs &runs_;
  size_t channel_, begin_;
  std::vector<size_t> order_;
};

}  // namespace lds::rescale

#endif  // LDS_CHANNEL_RUNS_H
