// Changes programs, validates them, and runs what the validator accepts on the simulator, which checks every access itself.
//
// In:   a number, and artifacts whose first device program is the seed; devices with regions.
// Out:  JSON: how many were accepted and ran, how many made the simulator stop for what the validator should have seen (unsound).
// Next: tests/vta/validator/test_validate_mutants.py.
//
// The simulator has nothing mapped but the model's regions, each on an island of its own in the address space.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "lds_isa.h"
#include "lds_sim.h"
#include "loadstone.h"

namespace {

constexpr uint64_t kStreamBus = 0x100000000u, kIsland = 0x10000000000u, kCycleLimit = 20000;

struct Seed {
  std::vector<uint8_t> file;
  lds_model model;
  lds_hw_config config;
  const uint8_t *constants[LDS_REGIONS] = {};
  std::vector<std::vector<uint8_t>> memory;
  std::vector<uint8_t> program;
  std::vector<uint64_t> scratch;
  lds_sim *sim = nullptr;
};

uint32_t u32(const uint8_t *p) { return p[0] | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24; }

// Section tables are documented in runtime/FORMAT.md: 1 regions, 5 steps, 7 instructions, 9 data.
void open(Seed *s, const char *path) {
  std::ifstream in(path, std::ios::binary);
  s->file.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  if (lds_model_open(&s->model, s->file.data(), s->file.size()) != LDS_OK) {
    std::fprintf(stderr, "%s: not sound\n", path);
    std::exit(2);
  }
  std::memcpy(&s->config, lds_model_fingerprint(&s->model, 0), sizeof s->config);
  s->sim = lds_sim_create(&s->config, 64);
  lds_sim_set_option(s->sim, LDS_SIM_TIMING, 0);
  const lds_table regions = s->model.section[1], steps = s->model.section[5], data = s->model.section[9];
  s->memory.resize(regions.count);
  for (uint32_t r = 0; r < regions.count; ++r) {
    const uint8_t *p = regions.bytes + 32 * r;
    const uint32_t kind = u32(p), flags = u32(p + 4), size = u32(p + 8);
    s->memory[r].assign(size, 0);
    if (kind == 0) std::memcpy(s->memory[r].data(), data.bytes + u32(p + 16), size);
    if (kind == 0) s->constants[r] = s->memory[r].data();
    if (flags == 0) continue;
    const uint64_t bus = kIsland * (r + 1u);
    lds_sim_map(s->sim, bus, s->memory[r].data(), size, (flags & 2u) != 0 ? 0 : LDS_SIM_READ_ONLY);
    lds_sim_set_region(s->sim, r, bus, size | ((flags & 2u) != 0 ? 0 : uint64_t{1} << 63));
  }
  for (uint32_t r = regions.count; r < 8; ++r) lds_sim_set_region(s->sim, r, 0, uint64_t{1} << 63);
  for (uint32_t k = 0; k < steps.count; ++k) {
    const uint8_t *p = steps.bytes + 16 * k;
    if (p[0] != 0 || p[1] != 0) continue;
    const uint8_t *record = s->model.section[6].bytes + size_t{4} * u32(p + 4);
    const uint8_t *first = s->model.section[8].bytes + u32(record + 4);
    s->program.assign(first, first + u32(record + 8));
    break;
  }
  s->scratch.resize(lds_validate_scratch_bytes(&s->model, 0) / 8 + 1);
}

using Random = std::mt19937_64;

uint32_t below(Random &random, size_t n) { return static_cast<uint32_t>(random() % n); }

// Bits anywhere; words at interesting values; instructions dropped, doubled, swapped, moved.
void mutate(std::vector<uint8_t> *p, Random &random) {
  for (uint32_t changes = 1 + below(random, 3); changes > 0; --changes) {
    const size_t count = p->size() / 16;
    uint8_t *at = p->data() + size_t{16} * below(random, count);
    uint8_t *other = p->data() + size_t{16} * below(random, count);
    switch (below(random, 8)) {
      case 0:
        if (count > 2) p->erase(p->begin() + (at - p->data()), p->begin() + (at - p->data()) + 16);
        break;
      case 1: {
        const std::vector<uint8_t> copy(at, at + 16);
        p->insert(p->begin() + (other - p->data()), copy.begin(), copy.end());
        break;
      }
      case 2:
        std::swap_ranges(at, at + 16, other);
        break;
      case 3: {  // a field-sized stretch of bits to all ones, zeros or noise
        const uint32_t begin = 7 + below(random, 120), width = 1 + below(random, 16), how = below(random, 3);
        for (uint32_t bit = begin; bit < begin + width && bit < 128; ++bit) {
          const uint8_t mask = static_cast<uint8_t>(1u << bit % 8);
          at[bit / 8] = static_cast<uint8_t>(how == 0 || (how == 2 && (random() & 1u) != 0) ? at[bit / 8] | mask : at[bit / 8] & ~mask);
        }
        break;
      }
      default:
        at[below(random, 16)] ^= static_cast<uint8_t>(1u << below(random, 8));
    }
  }
}

}  // namespace

int main(int argc, char **argv) {
  const long count = std::atol(argv[1]);
  std::vector<Seed> seeds(static_cast<size_t>(argc - 2));
  for (size_t k = 0; k < seeds.size(); ++k) open(&seeds[k], argv[2 + k]);
  Random random(20240607);
  long accepted = 0, finished = 0, limited = 0, unsound = 0;
  std::vector<uint8_t> stream;
  for (long n = 0; n < count; ++n) {
    Seed &s = seeds[static_cast<size_t>(n) % seeds.size()];
    stream = s.program;
    mutate(&stream, random);
    lds_fault fault{};
    const uint32_t insns = static_cast<uint32_t>(stream.size() / 16);
    if (lds_validate(&s.model, 0, stream.data(), insns, s.constants, s.scratch.data(), &fault) != LDS_OK) continue;
    ++accepted;
    // The stream has an address of its own, outside all regions; what the last one left there goes with a fresh map.
    lds_sim *sim = s.sim;
    lds_sim_unmap_all(sim);
    for (uint32_t r = 0; r < s.memory.size(); ++r) {
      const uint32_t flags = u32(s.model.section[1].bytes + 32 * r + 4);
      if (flags != 0)
        lds_sim_map(sim, kIsland * (r + 1u), s.memory[r].data(), s.memory[r].size(), (flags & 2u) != 0 ? 0 : LDS_SIM_READ_ONLY);
    }
    lds_sim_map(sim, kStreamBus, stream.data(), stream.size(), LDS_SIM_READ_ONLY);
    lds_sim_result result;
    const int status = lds_sim_run(sim, kStreamBus, insns, kCycleLimit, &result);
    if (status == static_cast<int>(LDS_ERROR_NONE)) {
      ++finished;
    } else if (status == static_cast<int>(LDS_ERROR_CYCLE_LIMIT)) {
      ++limited;
    } else {
      ++unsound;
      std::fprintf(stderr, "%s: program %ld: status %d at instruction %u: %s\n", argv[2 + static_cast<size_t>(n) % seeds.size()], n, status,
                   result.error_pc, lds_sim_message(sim));
    }
  }
  std::printf("{\"programs\": %ld, \"accepted\": %ld, \"finished\": %ld, \"cycle_limit\": %ld, \"unsound\": %ld}\n", count, accepted,
              finished, limited, unsound);
  for (Seed &s : seeds) lds_sim_destroy(s.sim);
  return unsound == 0 ? 0 : 1;
}
