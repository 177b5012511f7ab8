// Recorded programs on every path of inner loops that this processor has: the same bytes and the same cycles as recorded.
//
// In:   a file of tests/recorded.py: programs with the memory, scratchpads and cycles that they must leave; names of paths, all without.
// Out:  a line "PATH N programs" for each path, and exit status 0; or what differs first, and 1.
// Next: tests/vta/simulator/test_kernels.py runs it natively and under emulators of other processors, tests/bochs on one with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "lds_sim.h"

namespace {

const char *const kPaths[] = {"best", "portable", "avx2", "avx512", "neon", "wasm"};

typedef std::vector<uint8_t> Bytes;

struct Scratchpad {
  uint64_t memory, tiles;  // LDS_MEMORY_*
  Bytes bytes;             // what they must hold
};

struct Program {
  lds_hw_config config;
  uint64_t bus_bits, strict, base, regions, cycles;
  std::vector<std::pair<std::string, int64_t>> timing;
  Bytes insns, before, after;
  std::vector<Scratchpad> scratchpads;
};

[[noreturn]] void fail(const std::string &what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}

Bytes bytes_of(const char *name) {
  std::ifstream file(name, std::ios::binary | std::ios::ate);
  if (!file) fail(std::string(name) + " cannot be read");
  Bytes bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  if (!file.read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
    fail(std::string(name) + " cannot be read");
  return bytes;
}

// Numbers are 8 bytes, the lowest first; bytes follow their count.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(std::move(bytes)) {}

  uint64_t number() {
    uint64_t value = 0;
    const Bytes raw = take(8);
    for (size_t k = 8; k-- > 0;) value = value << 8 | raw[k];
    return value;
  }
  Bytes bytes() { return take(number()); }
  // All bytes, of which only the middle is stored: the others are zero.
  Bytes mostly_zeros() {
    Bytes all(number());
    const uint64_t first = number();
    const Bytes middle = bytes();
    if (first > all.size() || middle.size() > all.size() - first) fail("the file is no recording");
    if (!middle.empty()) std::memcpy(all.data() + first, middle.data(), middle.size());
    return all;
  }
  Program program() {
    Program p = {};
    const Bytes config = bytes();
    if (config.size() != sizeof p.config) fail("the file is no recording");
    std::memcpy(&p.config, config.data(), sizeof p.config);
    for (uint64_t *field : {&p.bus_bits, &p.strict, &p.base, &p.regions, &p.cycles}) *field = number();
    p.timing.resize(number());
    for (auto &constant : p.timing) {
      const Bytes name = bytes();
      constant = {std::string(name.begin(), name.end()), static_cast<int64_t>(number())};
    }
    for (Bytes *field : {&p.insns, &p.before, &p.after}) *field = bytes();
    p.scratchpads.resize(number());
    for (Scratchpad &s : p.scratchpads) {
      s.memory = number();
      s.tiles = number();
      s.bytes = mostly_zeros();
    }
    return p;
  }

 private:
  Bytes take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("the file is no recording");
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += count;
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(count));
  }

  Bytes bytes_;
  size_t at_ = 0;
};

void compare(const Bytes &got, const Bytes &expected, const std::string &where) {
  if (got == expected) return;
  for (size_t k = 0; k < expected.size(); ++k)
    if (got[k] != expected[k])
      fail(where + ": byte " + std::to_string(k) + " is " + std::to_string(got[k]) + ", not " + std::to_string(expected[k]));
}

void check(int status, lds_sim *sim, const std::string &where) {
  if (status != LDS_SIM_OK) fail(where + ": " + lds_sim_message(sim));
}

// Whether this processor has the path for the program's device, and then the program left what was recorded.
bool replay(const Program &p, int path, const std::string &where) {
  lds_sim *sim = lds_sim_create(&p.config, static_cast<uint32_t>(p.bus_bits));
  if (sim == nullptr) fail(where + ": the device cannot be");
  if (lds_sim_set_option(sim, LDS_SIM_KERNELS, path) != LDS_SIM_OK || lds_sim_get_option(sim, LDS_SIM_KERNELS) != path) {
    lds_sim_destroy(sim);
    return false;
  }
  Bytes memory = p.before, insns = p.insns;
  check(lds_sim_set_option(sim, LDS_SIM_STRICT, p.strict != 0), sim, where);
  for (const auto &constant : p.timing) check(lds_sim_set_timing(sim, constant.first.c_str(), constant.second), sim, where);
  check(lds_sim_map(sim, p.base, memory.data(), memory.size(), 0), sim, where);
  if (p.regions != 0) check(lds_sim_set_region(sim, 0, p.base, memory.size()), sim, where);
  const uint64_t at = (p.base + memory.size() + 4095) / 4096 * 4096;  // cycles depend on it: the place that vta/simulator/sim.py takes
  check(lds_sim_map(sim, at, insns.data(), insns.size(), LDS_SIM_READ_ONLY), sim, where);
  lds_sim_result result;
  check(lds_sim_run(sim, at, static_cast<uint32_t>(insns.size() / LDS_INSN_BYTES), 0, &result), sim, where);
  if (result.cycles != p.cycles) fail(where + ": " + std::to_string(result.cycles) + " cycles, not " + std::to_string(p.cycles));
  compare(memory, p.after, where + ", DRAM");
  for (const Scratchpad &s : p.scratchpads) {
    Bytes tiles(s.bytes.size());
    check(lds_sim_read_scratchpad(sim, static_cast<uint32_t>(s.memory), 0, static_cast<uint32_t>(s.tiles), tiles.data()), sim, where);
    compare(tiles, s.bytes, where + ", scratchpad " + std::to_string(s.memory));
  }
  lds_sim_destroy(sim);
  return true;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) fail("usage: replay_kernels FILE [PATH...]");
  Reader reader(bytes_of(argv[1]));
  const uint64_t count = reader.number();
  uint64_t done[6] = {};
  for (uint64_t n = 0; n < count; ++n) {
    const Program program = reader.program();
    for (int path = LDS_SIM_KERNELS_PORTABLE; path <= LDS_SIM_KERNELS_WASM; ++path)
      if (argc == 2 || std::find(argv + 2, argv + argc, std::string(kPaths[path])) != argv + argc)
        done[path] += replay(program, path, "program " + std::to_string(n) + ", " + kPaths[path]);
  }
  for (int path = LDS_SIM_KERNELS_PORTABLE; path <= LDS_SIM_KERNELS_WASM; ++path)
    if (done[path] != 0) std::printf("%s %llu programs\n", kPaths[path], static_cast<unsigned long long>(done[path]));
  return 0;
}
