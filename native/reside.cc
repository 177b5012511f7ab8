// Choose the address of each tile: the state of the scratchpads during a walk over a program, and the window for each new tile.
//
// In:   tiles in the order of their first use.
// Out:  the first place of each; a tile whose content is still resident reuses the block that holds it.
// Next: isa/residency.py; isa/scratchpad.py explains the orders.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lds_reside.h"

namespace lds::reside {
namespace {

constexpr int64_t kMost = int64_t{1} << 48;  // places, operations
constexpr int64_t kSets = 2;                 // of tiles in alternation: one is filled while the other is stored
constexpr int64_t kNothing = -1;

// A range of a scratchpad and the tile that is or was there.
struct Block {
  int64_t start, end, last_use, content;
};

// A gap between live blocks, and the dead blocks in it: [first, past).
struct Piece {
  int64_t low, high;
  size_t first, past;
};

// A possible range for a tile, and the blocks that it would replace, or those of its gap.
struct Window {
  int64_t start;
  size_t first, past;
};

// The number of blocks that are needed again, or, apart, only just were; and the last use of any of them: the smallest is best.
using Cost = std::pair<int64_t, int64_t>;

class Pad {
 public:
  Pad(int64_t depth, const std::vector<int64_t> &last_begin)
      : depth_(depth), last_begin_(last_begin), resident_(last_begin.size(), kNothing) {}

  bool find(const lds_reside_tile &tile, int64_t *start);
  bool place(const lds_reside_tile &tile, int64_t *start);
  int64_t live(int64_t now) const;

 private:
  std::optional<Window> window_for(const lds_reside_tile &tile) const;
  std::optional<Window> spread(int64_t size, int64_t now, bool apart) const;
  std::optional<Window> best(const lds_reside_tile &tile, int64_t beside) const;
  std::vector<Piece> pieces(int64_t now) const;
  void add_windows(const Piece &piece, int64_t size, std::vector<Window> *found) const;
  std::vector<Window> fitted(int64_t size, const std::vector<Piece> &wide, const std::vector<Piece> &all) const;
  Cost cost(int64_t size, int64_t now, Window *window) const;
  bool is_wanted(const Block &block, int64_t now) const {
    return block.content != kNothing && last_begin_[static_cast<size_t>(block.content)] > now;
  }

  // A load to its place waits for the work on the newest tile, and nothing is loaded beside that.
  bool is_busy(const Block &block) const { return block.content != kNothing && block.last_use > newest_; }

  int64_t depth_;
  int64_t newest_ = kMost;                  // when the newest tile begins
  const std::vector<int64_t> &last_begin_;  // of each content, when the last tile that holds it begins
  std::vector<Block> blocks_;               // in the order of places; gaps were never used
  std::vector<int64_t> resident_;           // of each content, the start of the block that holds it
};

// How many tiles of size `beside` fit, besides one of `size` at `start`; at most two, which is what double-buffering takes.
int64_t sets_left(int64_t start, int64_t size, int64_t beside, const std::vector<Piece> &pieces) {
  int64_t sets = 0;
  for (const Piece &piece : pieces) {
    if (piece.low <= start && start < piece.high)
      sets += (start - piece.low) / beside + (piece.high - start - size) / beside;
    else
      sets += (piece.high - piece.low) / beside;
  }
  return std::min(kSets, sets);
}

// The tile's content is resident: the lifetime of its block is extended.
bool Pad::find(const lds_reside_tile &tile, int64_t *start) {
  if (tile.content == kNothing) return false;
  *start = resident_[static_cast<size_t>(tile.content)];
  if (*start == kNothing) return false;
  const auto before = [](const Block &block, int64_t at) { return block.start < at; };
  Block &block = *std::lower_bound(blocks_.begin(), blocks_.end(), *start, before);
  block.last_use = std::max(block.last_use, tile.last);
  newest_ = tile.first;
  return true;
}

// The first place of the best window; the blocks in it are discarded.
bool Pad::place(const lds_reside_tile &tile, int64_t *start) {
  const std::optional<Window> window = window_for(tile);
  if (!window) return false;
  *start = window->start;
  newest_ = tile.first;
  for (size_t k = window->first; k < window->past; k++) {
    const int64_t content = blocks_[k].content;
    if (content != kNothing && resident_[static_cast<size_t>(content)] == blocks_[k].start)
      resident_[static_cast<size_t>(content)] = kNothing;
  }
  const auto at = blocks_.begin() + static_cast<std::ptrdiff_t>(window->first);
  const auto past = blocks_.begin() + static_cast<std::ptrdiff_t>(window->past);
  blocks_.insert(blocks_.erase(at, past), {*start, *start + tile.size, tile.last, tile.content});
  if (tile.content != kNothing) resident_[static_cast<size_t>(tile.content)] = *start;
  return true;
}

int64_t Pad::live(int64_t now) const {
  int64_t places = 0;
  for (const Block &block : blocks_)
    if (block.last_use >= now) places += block.end - block.start;
  return places;
}

std::optional<Window> Pad::window_for(const lds_reside_tile &tile) const {
  if (tile.order == LDS_RESIDE_APART) return spread(tile.size, tile.first, true);
  if (tile.order != LDS_RESIDE_SPREAD) return best(tile, 0);
  const std::optional<Window> window = spread(tile.size, tile.first, false);
  if (!window || !tile.beside || sets_left(window->start, tile.size, tile.beside, pieces(tile.first)) >= kSets) return window;
  const std::optional<Window> apart = best(tile, tile.beside);
  return apart ? apart : window;
}

// The best of those that begin at 0 or behind a block, which is asked most often: one walk over the blocks, up to the first window that
// costs nothing.
std::optional<Window> Pad::spread(int64_t size, int64_t now, bool apart) const {
  std::optional<Window> chosen;
  Cost least;
  size_t first = 0;
  for (int64_t start = 0; start <= depth_ - size;) {
    int64_t last_use = -1, again = 0;
    size_t past = first;
    bool lives = false;
    for (; past < blocks_.size() && blocks_[past].start < start + size; past++) {
      lives = blocks_[past].last_use >= now;
      if (lives) break;
      last_use = std::max(last_use, blocks_[past].last_use);
      again += is_wanted(blocks_[past], now) || (apart && is_busy(blocks_[past]));
    }
    if (lives) {
      first = past;  // all windows up to its end hold it, too
    } else if (!chosen || Cost(again, last_use) < least) {
      least = {again, last_use};
      chosen = Window{start, first, past};
      if (least == Cost(0, -1)) break;
    }
    if (first == blocks_.size()) break;
    start = blocks_[first].end;
    first++;
  }
  return chosen;
}

// The window whose content is wanted again least, and was last used longest ago; the first of equals. beside: not 0: of the windows
// that leave room for most tiles of this size.
std::optional<Window> Pad::best(const lds_reside_tile &tile, int64_t beside) const {
  const std::vector<Piece> all = pieces(tile.first);
  std::vector<Piece> wide;
  for (const Piece &piece : all)
    if (piece.high - piece.low >= tile.size) wide.push_back(piece);
  if (wide.empty()) return std::nullopt;
  std::vector<Window> windows;
  if (tile.order == LDS_RESIDE_PACKED) {
    const bool low = tile.content == kNothing;
    const Piece &piece = low ? wide.front() : wide.back();
    windows.push_back({low ? piece.low : piece.high - tile.size, piece.first, piece.past});
  } else if (tile.order == LDS_RESIDE_FITTED) {
    windows = fitted(tile.size, wide, all);
  } else {
    for (const Piece &piece : wide) add_windows(piece, tile.size, &windows);
  }
  if (beside) {
    int64_t most = 0;
    for (const Window &window : windows) most = std::max(most, sets_left(window.start, tile.size, beside, all));
    const auto has_fewer = [&](const Window &window) { return sets_left(window.start, tile.size, beside, all) < most; };
    windows.erase(std::remove_if(windows.begin(), windows.end(), has_fewer), windows.end());
  }
  std::optional<Window> chosen;
  Cost least;
  for (Window &window : windows) {
    const Cost found = cost(tile.size, tile.first, &window);
    if (chosen && least <= found) continue;
    least = found;
    chosen = window;
  }
  return chosen;
}

std::vector<Piece> Pad::pieces(int64_t now) const {
  std::vector<Piece> found;
  int64_t low = 0;
  size_t first = 0;
  for (size_t k = 0; k < blocks_.size(); k++) {
    if (blocks_[k].last_use < now) continue;
    if (low < blocks_[k].start) found.push_back({low, blocks_[k].start, first, k});
    low = blocks_[k].end;
    first = k + 1;
  }
  if (low < depth_) found.push_back({low, depth_, first, blocks_.size()});
  return found;
}

// They begin with the piece or behind a block, and end before one or with the piece.
void Pad::add_windows(const Piece &piece, int64_t size, std::vector<Window> *found) const {
  std::vector<int64_t> starts{piece.low, piece.high - size};
  for (size_t k = piece.first; k < piece.past; k++) {
    starts.push_back(blocks_[k].end);
    starts.push_back(blocks_[k].start - size);
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  for (const int64_t start : starts)
    if (piece.low <= start && start <= piece.high - size) found->push_back({start, piece.first, piece.past});
}

// Those in some pieces that leave the largest piece of all.
std::vector<Window> Pad::fitted(int64_t size, const std::vector<Piece> &wide, const std::vector<Piece> &all) const {
  int64_t largest = 0, second = 0;
  for (const Piece &piece : all) {
    const int64_t own = piece.high - piece.low;
    second = std::max(second, std::min(own, largest));
    largest = std::max(largest, own);
  }
  const auto beside = [&](const Piece &piece) { return piece.high - piece.low < largest ? largest : second; };
  int64_t left = 0;
  for (const Piece &piece : wide) left = std::max({left, piece.high - piece.low - size, beside(piece)});
  std::vector<Window> found;
  for (const Piece &piece : wide) {
    if (beside(piece) == left) {
      add_windows(piece, size, &found);
    } else if (piece.high - piece.low - size == left) {
      found.push_back({piece.low, piece.first, piece.past});
      found.push_back({piece.high - size, piece.first, piece.past});
    }
  }
  return found;
}

// Of a window in which nothing lives; narrows its blocks to those in it.
Cost Pad::cost(int64_t size, int64_t now, Window *window) const {
  while (window->first < window->past && blocks_[window->first].end <= window->start) window->first++;
  int64_t last_use = -1, again = 0;
  size_t k = window->first;
  for (; k < window->past && blocks_[k].start < window->start + size; k++) {
    last_use = std::max(last_use, blocks_[k].last_use);
    again += is_wanted(blocks_[k], now);
  }
  window->past = k;
  return {again, last_use};
}

bool is_in(int64_t number, int64_t low, int64_t end) { return low <= number && number < end; }

bool are_tiles(uint32_t pads, const int64_t *depth, uint32_t contents, uint32_t tiles, const lds_reside_tile *tile) {
  for (uint32_t k = 0; k < pads; k++)
    if (!is_in(depth[k], 0, kMost)) return false;
  int64_t now = 0;
  for (uint32_t k = 0; k < tiles; k++) {
    const lds_reside_tile &one = tile[k];
    if (!is_in(one.pad, 0, pads) || !is_in(one.size, 1, kMost) || !is_in(one.content, kNothing, contents)) return false;
    if (!is_in(one.first, now, kMost) || !is_in(one.last, one.first, kMost)) return false;
    if (!is_in(one.beside, 0, kMost) || !is_in(one.order, LDS_RESIDE_SPREAD, LDS_RESIDE_APART + 1)) return false;
    now = one.first;
  }
  return true;
}

}  // namespace
}  // namespace lds::reside

int lds_reside(uint32_t pads, const int64_t *depth, uint32_t contents, uint32_t tiles, const lds_reside_tile *tile, int64_t *address,
               uint8_t *resident, lds_no_room *no_room) {
  using lds::reside::Pad;
  if (!lds::reside::are_tiles(pads, depth, contents, tiles, tile)) return LDS_RESIDE_BAD_ARGUMENT;
  try {
    std::vector<int64_t> last_begin(contents, -1);
    for (uint32_t k = 0; k < tiles; k++)
      if (tile[k].content >= 0) last_begin[static_cast<size_t>(tile[k].content)] = tile[k].first;
    std::vector<Pad> all;
    for (uint32_t k = 0; k < pads; k++) all.emplace_back(depth[k], last_begin);
    for (uint32_t k = 0; k < tiles; k++) {
      Pad &pad = all[static_cast<size_t>(tile[k].pad)];
      resident[k] = pad.find(tile[k], &address[k]);
      if (resident[k] || pad.place(tile[k], &address[k])) continue;
      *no_room = {k, pad.live(tile[k].first)};
      return LDS_RESIDE_NO_ROOM;
    }
    return LDS_RESIDE_OK;
  } catch (const std::bad_alloc &) {
    return LDS_RESIDE_NO_MEMORY;
  } catch (const std::length_error &) {
    return LDS_RESIDE_NO_MEMORY;
  }
}
