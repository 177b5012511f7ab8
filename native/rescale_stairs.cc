// Find the first multipliers for which every stair of a channel has an exact constant.
//
// In:   runs of channels, where constants change; offsets and bends, in the order in which they are tried.
// Out:  for each channel the first that is exact everywhere, and the window of each constant.
// Next: vta/integers/stair_search.py chooses constants from the windows; vta/integers/proof.py proves the result.
// SPDX-License-Identifier: Apache-2.0
#include "channel_runs.h"

namespace lds::rescale {
namespace {

// Bits of the sum that the lowest level loses.
constexpr int64_t kLost = 8;
// Where the top one of three digits becomes negative.
constexpr int64_t kHalf = 128 + 128 * 256;

// The sum as the device makes it: with the sign digit, which still stands in the accumulator, in the lowest level.
struct StairSum {
  DigitSum<3> digits;
  bool is_signed;

  int64_t operator()(int64_t acc) const {
    const int64_t sign = is_signed && digits.split(acc) < -kHalf ? -1 : 0;
    return (digits(acc) + sign) >> kLost;
  }

  // The multipliers of a bend near a real scale. False where the sum would fall somewhere.
  bool choose(const lds_rescale_bend &bend, double real) {
    auto &[m0, m1, m2] = digits.multipliers;
    const int64_t lowest = nearest(real);
    const int64_t beside = real >= static_cast<double>(lowest) ? lowest + 1 : lowest - 1;
    m0 = bend.other != 0 ? beside : lowest;
    m1 = nearest(real * 256) + bend.second;
    m2 = nearest(real * 65536) + bend.third;
    return m0 > 0 && m1 >= 255 * m0 && m2 >= 255 * (m0 + m1);
  }
};

class StairSearch {
 public:
  StairSearch(const lds_rescale_runs &runs, const lds_rescale_stairs_form &form, size_t at)
      : runs_(runs),
        form_(form),
        at_(at),
        begin_(static_cast<size_t>(runs.channels[at]) * runs.runs),
        order_(runs.runs - 1),
        windows_(form.window_count) {}

  // For one offset, the first bend that is exact everywhere.
  bool attempt(int64_t offset, lds_rescale_found *found) {
    StairSum sum{{offset, form_.left[at_], {}}, form_.is_signed != 0};
    for (size_t number = 0; number < form_.bend_count; ++number) {
      if (!sum.choose(form_.bends[number], form_.real[at_]) || !open(sum)) continue;
      found->ok = 1;
      std::copy(sum.digits.multipliers.begin(), sum.digits.multipliers.end(), found->multipliers);
      found->offset = offset;
      return true;
    }
    return false;
  }

  void write(lds_rescale_window *windows) const {
    for (const Window &window : windows_) *windows++ = {window.least, window.most};
  }

 private:
  // The sum with the constant reaches value << unit where the output becomes value, and not before.
  bool open(const StairSum &sum) {
    std::fill(windows_.begin(), windows_.end(), Window{});
    for (size_t place = 0; place < order_.size(); ++place) {
      const size_t before = begin_ + order_[place], behind = before + 1;
      const int64_t value = runs_.value[behind], level = shifted(value, form_.unit[at_]);
      if (value <= runs_.value[before]) continue;
      Window &window = windows_[static_cast<size_t>(form_.window_of[value - runs_.low])];
      window.at_least(level - sum(runs_.first[behind]), place);
      window.at_most(level - 1 - sum(runs_.last[before]), place);
      if (window.open()) continue;
      order_.look_first(window);
      return false;
    }
    return true;
  }

  const lds_rescale_runs &runs_;
  const lds_rescale_stairs_form &form_;
  size_t at_, begin_;
  RunOrder order_;
  std::vector<Window> windows_;
};

}  // namespace
}  // namespace lds::rescale

void lds_rescale_stairs(const lds_rescale_runs *runs, const lds_rescale_stairs_form *form, const int64_t *offsets, const uint8_t *fits,
                        size_t offset_count, lds_rescale_found *found, lds_rescale_window *windows) {
  for (size_t at = 0; at < runs->count; ++at) {
    if (found[at].ok != 0) continue;
    lds::rescale::StairSearch search(*runs, *form, at);
    for (size_t row = at; row < offset_count * runs->count; row += runs->count) {
      if (fits[row] == 0 || !search.attempt(offsets[row], &found[at])) continue;
      search.write(windows + at * form->window_count);
      break;
    }
  }
}
