// A map from ranges of addresses to values.
//
// In:   assignments to ranges; where they overlap, the later one holds.
// Out:  the values that overlap a range.
// Next: check.cc keeps in it the latest access to each byte of DRAM.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

namespace lds::sim {

template <typename Value>
class IntervalMap {
 public:
  // Calls visit(begin, end, value) for each piece of [begin, end) that has a value.
  template <typename Visit>
  void overlaps(uint64_t begin, uint64_t end, Visit visit) const {
    auto piece = pieces_.upper_bound(begin);
    if (piece != pieces_.begin()) --piece;
    for (; piece != pieces_.end() && piece->first < end; ++piece)
      if (piece->second.end > begin)
        visit(piece->first > begin ? piece->first : begin, piece->second.end < end ? piece->second.end : end, piece->second.value);
  }

  void assign(uint64_t begin, uint64_t end, const Value &value) {
    if (begin >= end) return;
    split(begin);
    split(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_.emplace(begin, Piece{end, value});
  }

  void clear() { pieces_.clear(); }

 private:
  struct Piece {
    uint64_t end;
    Value value;
  };

  // Splits the piece that contains `at` there.
  void split(uint64_t at) {
    auto piece = pieces_.upper_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->first == at || piece->second.end <= at) return;
    const Piece tail = piece->second;
    piece->second.end = at;
    pieces_.emplace(at, tail);
  }

  std::map<uint64_t, Piece> pieces_;  // by begin; they never overlap
};

}  // namespace lds::sim
