// The first integers that give a channel's outputs: multipliers of digits, or of the whole accumulator.
//
// In:   runs of channels; candidates, in the order in which they are tried.
// Out:  for each channel the first one for which an exact constant exists, and the constant.
// Next: vta/integers/digit_search.py and vta/integers/search.py choose the candidates; vta/integers/proof.py proves the result.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "channel_runs.h"

namespace lds::rescale {
namespace {

// The largest lowest multiplier: two signed digits.
constexpr int64_t kLargestLowest = 127 * 256 + 127;

double scaled(double scale, int64_t left) { return std::ldexp(scale, static_cast<int>(left)); }

struct LineSum {
  int64_t slope;

  int64_t operator()(int64_t acc) const { return acc * slope; }
};

// Whether digits hold all of these accumulators: with the top digit at its end, whatever the others are.
template <size_t kDigits>
bool holds(const DigitSum<kDigits> &sum, int64_t low, int64_t high) {
  constexpr int64_t one = kDigits == 2 ? 256 : 65536, below = kDigits == 2 ? 1 : 257;  // of the top digit; of all others
  return sum.split(low) >= -128 * one + 127 * below && sum.split(high) <= 127 * one - 128 * below;
}

// The multipliers that are nearest to a real scale.
template <size_t kDigits>
struct NearReal {
  int64_t lowest, beside, second, third, coarse;

  explicit NearReal(double real)
      : lowest(static_cast<int64_t>(std::floor(real + 0.5))),
        beside(real >= static_cast<double>(lowest) ? lowest + 1 : lowest - 1),
        second(nearest(real * 256)),
        third(kDigits == 2 ? 0 : nearest(real * 65536 - 1) + 1),
        coarse(kDigits == 2 ? 0 : nearest((real * 65536 - 1) / 256) * 256 + 1) {}

  // Those of a candidate. False where the sum would fall: a carry takes 255 from each digit below.
  bool choose(const lds_rescale_candidate &candidate, DigitSum<kDigits> *sum) const {
    auto &[m0, m1, m2] = sum->multipliers;
    m0 = std::clamp<int64_t>(candidate.other != 0 ? beside : lowest, 1, kLargestLowest);
    m1 = second + candidate.second;
    if (m1 < 255 * m0) return false;
    if (kDigits == 2) return true;
    m2 = (candidate.coarse != 0 ? coarse : third) + candidate.third;
    return m2 >= 255 * (m1 + m0);
  }
};

void settle(const Windows &windows, int64_t shift, lds_rescale_found *found) {
  const auto &[below, above] = windows;
  found->ok = 1;
  found->constant = above.bounded() ? above.middle() : below.middle();
  found->sign = below.bounded() ? found->constant - below.middle() : 0;
  found->shift = shift;
}

struct DigitCandidates {
  const lds_rescale_candidate *begin;
  size_t count;
  bool is_signed;

  // The first candidate that is exact everywhere. shift: that of the sum, before it is refined.
  template <size_t kDigits>
  bool search(ChannelRuns *runs, int64_t shift, DigitSum<kDigits> sum, lds_rescale_found *found) const {
    // Neighbours are as good, and finding the nearest one takes longer than rejecting most candidates.
    int64_t own = shift;
    NearReal<kDigits> near(scaled(runs->scale(), own - sum.left));
    for (size_t number = 0; number < count; ++number) {
      if (const int64_t next = shift - begin[number].finer; next != own)
        near = NearReal<kDigits>(scaled(runs->scale(), next - sum.left)), own = next;
      Windows windows;
      if (own < 0 || !near.choose(begin[number], &sum)) continue;
      if (!runs->open(sum, own, is_signed, &windows)) continue;
      settle(windows, own, found);
      std::copy(sum.multipliers.begin(), sum.multipliers.end(), found->multipliers);
      found->offset = sum.offset;
      return true;
    }
    return false;
  }
};

void search_line(ChannelRuns *runs, int64_t shift, int64_t limit, lds_rescale_found *found) {
  for (int64_t finer = 0; finer < 3; ++finer) {
    const int64_t own = std::max<int64_t>(shift - finer, 0);
    for (const int64_t distance : {0, 1, -1, 2, -2}) {
      const int64_t slope = nearest(scaled(runs->scale(), own)) + distance;
      Windows windows;
      if (slope <= 0 || slope > limit || !runs->open(LineSum{slope}, own, false, &windows)) continue;
      settle(windows, own, found);
      found->multipliers[0] = slope;
      return;
    }
  }
}

// All channels without a result so far.
template <size_t kDigits>
void search_digits(const lds_rescale_runs &runs, const lds_rescale_form &form, const int64_t *offsets, size_t offset_count,
                   const DigitCandidates &all, lds_rescale_found *found) {
  for (size_t at = 0; at < runs.count; ++at) {
    if (found[at].ok != 0) continue;
    ChannelRuns own(runs, at);
    if (own.constant()) continue;
    for (size_t number = 0; number < offset_count; ++number) {
      const DigitSum<kDigits> sum{form.offset[at] + offsets[number], form.left[at], {}};
      if (holds(sum, form.low[at], form.high[at]) && all.search(&own, form.shift[at], sum, &found[at])) break;
    }
  }
}

}  // namespace
}  // namespace lds::rescale

using namespace lds::rescale;  // NOLINT: this part only wraps

void lds_rescale_digits(const lds_rescale_runs *runs, const lds_rescale_form *form, const int64_t *offsets, size_t offset_count,
                        const lds_rescale_candidate *candidates, size_t candidate_count, lds_rescale_found *found) {
  const DigitCandidates all{candidates, candidate_count, form->is_signed != 0};
  if (form->count == 2) {
    search_digits<2>(*runs, *form, offsets, offset_count, all, found);
  } else {
    search_digits<3>(*runs, *form, offsets, offset_count, all, found);
  }
}

void lds_rescale_parts(const lds_rescale_runs *runs, const int64_t *shift, const int64_t *limit, lds_rescale_found *found) {
  for (size_t at = 0; at < runs->count; ++at) {
    ChannelRuns own(*runs, at);
    if (!own.constant()) search_line(&own, shift[at], limit[at], &found[at]);
  }
}

void lds_rescale_needs_sign(const lds_rescale_runs *runs, const int64_t *slope, const int64_t *shift, const int64_t *distances,
                            size_t distance_count, uint8_t *needs) {
  for (size_t at = 0; at < runs->count; ++at) {
    ChannelRuns own(*runs, at);
    const auto some_line = [&](bool is_signed) {
      return std::any_of(distances, distances + distance_count, [&](int64_t distance) {
        Windows windows;
        return own.open(LineSum{slope[at] + distance}, shift[at], is_signed, &windows);
      });
    };
    needs[at] = !own.constant() && !some_line(false) && some_line(true);
  }
}
