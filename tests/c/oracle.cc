// Every opcode with every memory, operation, stage and register, every pair of other fields at their limits, under every set of
// capabilities: what the validator accepts, the simulator executes.
//
// In:   an artifact whose regions programs work in (region 0: constants of zeros), and lines `OPCODE NAME START WIDTH SIGNED ENUMERATED` on
//       stdin, one for each field behind the flags; flags are named as in lds_isa.h.
// Out:  JSON: instructions tried, accepted, refused by the simulator all the same (with strict mode: those that are no hazard of VTA's
// RTL). Next: tests/vta/validator/test_validate_oracle.py.
//
// Each stands in a program that loads a micro-op before it and ends as its stage must. A device without regions gets absolute places,
// as the runtime would make them.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "geometry.h"
#include "lds_isa.h"
#include "lds_sim.h"
#include "loadstone.h"

namespace {

constexpr uint64_t kStreamBus = uint64_t{1} << 44, kCycleLimit = 4000;
constexpr uint32_t kIslandTiles = 1u << 16, kAllCapabilities = 63 | LDS_CAP_STORE_REQUANTIZE | LDS_CAP_STORE_ACC;

struct Field {
  uint32_t opcode, start, width;
  bool is_signed, enumerated;
  std::string name;
  std::vector<uint64_t> few, many;  // values, as bits: the limits; and around every power of two
};

uint32_t u32(const uint8_t *p) { return p[0] | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24; }

struct Word {
  uint64_t half[2] = {};
  void put(const Field &f, uint64_t value) {
    for (uint32_t bit = 0; bit < f.width; ++bit) {
      const uint32_t at = f.start + bit;
      half[at / 64] = (half[at / 64] & ~(uint64_t{1} << at % 64)) | (value >> bit & 1u) << at % 64;
    }
  }
};

struct Oracle {
  std::vector<uint8_t> file;
  lds_model model{};
  lds_hw_config config{};
  std::vector<std::vector<uint8_t>> memory;
  const uint8_t *constants[LDS_REGIONS] = {};
  std::vector<uint64_t> scratch;
  lds_sim *sim = nullptr;
  std::vector<Field> fields;
  uint64_t tried = 0, accepted = 0, refused = 0, hazards = 0, beyond = 0;

  uint32_t flags_of(uint32_t r) const { return u32(model.section[1].bytes + 32 * r + 4); }
  bool has_regions() const { return (config.capabilities & LDS_CAP_REGIONS) != 0; }
  // Where a region stands: a whole number of tiles of any memory, and below what a field of 32 bits can say.
  uint64_t island(uint32_t r) const { return uint64_t{kIslandTiles} * 4096 * (r + 1u); }

  void device(uint32_t capabilities) {
    uint8_t *fingerprint = file.data() + (lds_model_fingerprint(&model, 0) - file.data());
    fingerprint[16] = static_cast<uint8_t>(capabilities);
    std::memcpy(&config, fingerprint, sizeof config);
    if (sim != nullptr) lds_sim_destroy(sim);
    sim = lds_sim_create(&config, 64);
    if (sim == nullptr) std::exit(3);
    lds_sim_set_option(sim, LDS_SIM_TIMING, 0);
    for (uint32_t r = 0; r < 8; ++r) lds_sim_set_region(sim, r, 0, uint64_t{1} << 63);
    for (uint32_t r = 0; r < memory.size(); ++r)
      if (flags_of(r) != 0) lds_sim_set_region(sim, r, island(r), memory[r].size() | ((flags_of(r) & 2u) != 0 ? 0 : uint64_t{1} << 63));
  }

  // Waits for a token, and does nothing else.
  static void wait_for(uint32_t pop_bit, std::vector<uint64_t> *stream) {
    stream->push_back(LDS_OPCODE_LOAD | uint64_t{1} << pop_bit | uint64_t{LDS_MEMORY_UOP} << LDS_BIT_MEMORY_MEMORY_ID);
    stream->push_back(0);
  }

  // The micro-op's load, the instruction, what its stage leaves to be done, FINISH.
  static std::vector<uint64_t> program(const Word &word) {
    std::vector<uint64_t> stream;
    stream.reserve(10);
    stream.push_back(LDS_OPCODE_LOAD | uint64_t{LDS_MEMORY_UOP} << LDS_BIT_MEMORY_MEMORY_ID);
    stream.push_back(uint64_t{1} << (LDS_BIT_MEMORY_Y_SIZE - 64) | uint64_t{1} << (LDS_BIT_MEMORY_X_SIZE - 64));
    stream.push_back(word.half[0]);
    stream.push_back(word.half[1]);
    if ((word.half[0] >> LDS_BIT_PUSH_NEXT & 1u) != 0) wait_for(LDS_BIT_POP_PREV, &stream);
    if ((word.half[0] >> LDS_BIT_PUSH_PREV & 1u) != 0) wait_for(LDS_BIT_POP_NEXT, &stream);
    stream.push_back(LDS_OPCODE_FINISH);
    stream.push_back(0);
    return stream;
  }

  static uint8_t *bytes_of(const std::vector<uint64_t> &stream) {
    return const_cast<uint8_t *>(reinterpret_cast<const uint8_t *>(stream.data()));
  }

  static uint32_t count_of(const std::vector<uint64_t> &stream) { return static_cast<uint32_t>(stream.size() / 2); }

  // As lds_stream_resolve.
  void resolve(const std::vector<uint64_t> &stream) const {
    for (uint8_t *at = bytes_of(stream); at < bytes_of(stream) + 16u * count_of(stream); at += 16) {
      lds_insn insn{};
      if (lds_insn_decode(lds_isa_widths_of(&config), at, &insn) != LDS_ISA_OK) std::exit(4);
      if ((insn.opcode != LDS_OPCODE_LOAD && insn.opcode != LDS_OPCODE_STORE) || insn.u.memory.x_size == 0) continue;
      lds_insn_memory *m = &insn.u.memory;
      m->dram_base += static_cast<uint32_t>(island(m->region) >> lds_log_tile_bytes(&config, m->memory_id));
      m->region = 0;
      if (lds_insn_encode(lds_isa_widths_of(&config), &insn, at) != LDS_ISA_OK) std::exit(5);
    }
  }

  bool accepts(const std::vector<uint64_t> &stream) {
    lds_fault fault{};
    ++tried;
    return lds_validate(&model, 0, bytes_of(stream), count_of(stream), constants, scratch.data(), &fault) == LDS_OK;
  }

  int run(const std::vector<uint64_t> &stream, bool strict) {
    lds_sim_result result;
    lds_sim_set_option(sim, LDS_SIM_STRICT, strict);
    lds_sim_unmap_all(sim);
    for (uint32_t r = 0; r < memory.size(); ++r)
      if (flags_of(r) != 0)
        lds_sim_map(sim, island(r), memory[r].data(), memory[r].size(), (flags_of(r) & 2u) != 0 ? 0 : LDS_SIM_READ_ONLY);
    lds_sim_map(sim, kStreamBus, bytes_of(stream), 8 * stream.size(), LDS_SIM_READ_ONLY);
    return lds_sim_run(sim, kStreamBus, count_of(stream), kCycleLimit, &result);
  }

  // Whether the validator accepts the instruction, which then must be executed.
  bool try_one(const Word &word) {
    const std::vector<uint64_t> stream = program(word);
    if (!accepts(stream)) return false;
    ++accepted;
    if (!has_regions()) resolve(stream);
    const int status = run(stream, false);
    if (status == static_cast<int>(LDS_ERROR_CYCLE_LIMIT)) {
      ++beyond;
      return true;
    }
    if (status != static_cast<int>(LDS_ERROR_NONE)) complain(word, "refused", &refused);
    const int strict = run(stream, true);
    if (strict == static_cast<int>(LDS_ERROR_UNSAFE) && is_hazard(lds_sim_message(sim))) {
      ++hazards;
    } else if (strict != static_cast<int>(LDS_ERROR_NONE)) {
      complain(word, "refused in strict mode", &refused);
    }
    return true;
  }

  // Of VTA's RTL: they follow from data, sizes and distances.
  static bool is_hazard(const std::string &message) {
    for (const char *part : {"a burst of a single beat", "LOAD INP of ", "must equal dst's", "SHR by ", "within the next two ALU steps",
                             "STORE reads the out buffer"})
      if (message.find(part) != std::string::npos) return true;
    return false;
  }

  void complain(const Word &word, const char *what, uint64_t *count) {
    if ((*count)++ < 5)
      std::fprintf(stderr, "capabilities %u: %016llx %016llx is accepted, and %s: %s\n", config.capabilities,
                   static_cast<unsigned long long>(word.half[1]), static_cast<unsigned long long>(word.half[0]), what,
                   lds_sim_message(sim));
  }

  // The last value of a field that is accepted behind one that is, at the limit of a place or a loop.
  void bisect(Word word, const Field &f) {
    uint64_t good = 0, bad = uint64_t{1} << (f.width - (f.is_signed ? 1 : 0));
    word.put(f, good);
    if (!try_one(word)) return;
    while (bad - good > 1) {
      const uint64_t middle = good + (bad - good) / 2;
      word.put(f, middle);
      (accepts(program(word)) ? good : bad) = middle;
    }
    for (uint64_t value : {good, good - 1, bad}) {
      word.put(f, value);
      try_one(word);
    }
  }

  void opcode(uint32_t opcode) {
    std::vector<const Field *> enumerated, numbers;
    for (const Field &f : fields)
      if (f.opcode == opcode) (f.enumerated ? enumerated : numbers).push_back(&f);
    for (uint32_t flags = 0; flags < 16; ++flags)
      for (const char *base : {"", "one"}) {
        Word word;
        word.half[0] = opcode | uint64_t{flags} << LDS_BIT_POP_PREV;
        for (const Field *f : numbers)
          if (*base != 0 && is_count(f->name)) word.put(*f, 1);
        choose(word, enumerated, 0, [&](const Word &chosen) {
          if (!try_one(chosen) && flags != 0 && flags != of_load() && flags != of_store()) return;
          for (size_t a = 0; a < numbers.size(); ++a) {
            Word one = chosen;
            for (uint64_t value : numbers[a]->many) {
              one.put(*numbers[a], value);
              try_one(one);
            }
            bisect(chosen, *numbers[a]);
            for (size_t b = 0; b < a; ++b)
              for (uint64_t x : numbers[a]->few)
                for (uint64_t y : numbers[b]->few) {
                  Word both = chosen;
                  both.put(*numbers[a], x);
                  both.put(*numbers[b], y);
                  try_one(both);
                }
          }
        });
      }
  }

  // How load and store end.
  static uint32_t of_load() { return 1u << (LDS_BIT_PUSH_NEXT - LDS_BIT_POP_PREV); }
  static uint32_t of_store() { return 1u << (LDS_BIT_PUSH_PREV - LDS_BIT_POP_PREV); }
  static bool is_count(const std::string &name) {
    return name == "y_size" || name == "x_size" || name == "iter_out" || name == "iter_in" || name == "uop_end";
  }

  static void choose(const Word &word, const std::vector<const Field *> &enumerated, size_t k,
                     const std::function<void(const Word &)> &visit) {
    if (k == enumerated.size()) return visit(word);
    for (uint64_t value = 0; value < uint64_t{1} << enumerated[k]->width; ++value) {
      Word with = word;
      with.put(*enumerated[k], value);
      choose(with, enumerated, k + 1, visit);
    }
  }
};

void open(Oracle *o, const char *path) {
  std::ifstream in(path, std::ios::binary);
  o->file.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  if (lds_model_open(&o->model, o->file.data(), o->file.size()) != LDS_OK) std::exit(2);
  const lds_table regions = o->model.section[1], data = o->model.section[9];
  o->memory.resize(regions.count);
  for (uint32_t r = 0; r < regions.count; ++r) {
    const uint8_t *p = regions.bytes + 32 * r;
    o->memory[r].assign(u32(p + 8), 0);
    if (u32(p) == 0) std::memcpy(o->memory[r].data(), data.bytes + u32(p + 16), u32(p + 8));
    if (u32(p) == 0) o->constants[r] = o->memory[r].data();
  }
  o->scratch.resize(lds_validate_scratch_bytes(&o->model, 0) / 8 + 1);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  Oracle o;
  open(&o, argv[1]);
  for (Field f; std::cin >> f.opcode >> f.name >> f.start >> f.width >> f.is_signed >> f.enumerated;) {
    const uint64_t all = f.width == 64 ? ~uint64_t{0} : (uint64_t{1} << f.width) - 1;
    f.few = {0, 1 & all, all >> 1, all};
    f.many = {all - 1};
    for (uint32_t k = 1; k < f.width; ++k) f.many.insert(f.many.end(), {(uint64_t{1} << k) - 1, uint64_t{1} << k});
    o.fields.push_back(f);
  }
  const uint32_t step = static_cast<uint32_t>(std::atoi(argv[2]));
  uint32_t sets = 0;
  for (uint32_t capabilities = 0; capabilities <= kAllCapabilities; ++capabilities) {
    // all, none, and each alone or missing; of the others each `step`-th
    if ((capabilities & ~kAllCapabilities) != 0) continue;
    const uint32_t missing = kAllCapabilities & ~capabilities;
    const bool edge = (capabilities & (capabilities - 1)) == 0 || (missing & (missing - 1)) == 0;
    if (!edge && capabilities % step != 0) continue;
    const bool is_float = lds_model_fingerprint(&o.model, 0)[1] == 4;
    if ((capabilities & LDS_CAP_REQUANTIZE) != 0 && (is_float || (capabilities & LDS_CAP_CONFIG) == 0)) continue;  // no such device
    if ((capabilities & LDS_CAP_STORE_REQUANTIZE) != 0 && (capabilities & LDS_CAP_REQUANTIZE) == 0) continue;
    if ((capabilities & LDS_CAP_STORE_ACC) != 0 && is_float) continue;
    o.device(capabilities);
    ++sets;
    for (uint32_t opcode = 0; opcode < 8; ++opcode) o.opcode(opcode);
  }
  std::printf("{\"sets\": %u, \"tried\": %llu, \"accepted\": %llu, \"beyond\": %llu, \"hazards\": %llu, \"refused\": %llu}\n", sets,
              static_cast<unsigned long long>(o.tried), static_cast<unsigned long long>(o.accepted),
              static_cast<unsigned long long>(o.beyond), static_cast<unsigned long long>(o.hazards),
              static_cast<unsigned long long>(o.refused));
  lds_sim_destroy(o.sim);
  return o.refused == 0 ? 0 : 1;
}
