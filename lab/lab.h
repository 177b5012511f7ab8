// The simulated device that the page looks at: one, with what its last program did.
//
// In:   a configuration, timing constants; a program in mapped memory.
// Out:  the run, recorded instruction by instruction, whole or up to a step.
// Next: bench.cc runs a visitor's program on it, artifact.cc the programs of an artifact.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lds_sim.h"

#ifdef __wasm__
#define LAB_EXPORT(name) extern "C" __attribute__((export_name(#name)))
#else
#define LAB_EXPORT(name) extern "C" __attribute__((visibility("default")))
#endif

namespace lds::lab {

struct Lab {
  lds_sim *sim = nullptr;
  lds_hw_config config{};
  std::string message;  // of the last call that failed
  std::string text;     // what the last call returned
  lds_sim_result result{};
  std::vector<uint8_t> program;  // the bytes that ran last
  std::vector<uint32_t> order;   // its instructions as they ran

  lds_isa_widths widths() const { return lds_isa_widths_of(&config); }
  uint32_t depth(uint32_t memory) const;
  uint32_t tile_bytes(uint32_t memory) const;
};

// The page's only one.
Lab &lab();

// A status below 0 with its message.
int refuse(std::string why);

// What a run keeps: nothing, or events, findings and the order.
enum class Record { kNothing, kAll };

// Runs `count` instructions at a bus address; with `steps` only so many. Scratchpads keep what they hold.
void run(uint64_t bus, const uint8_t *cpu, uint32_t count, uint32_t steps, int order, Record record);

constexpr uint32_t kAllSteps = UINT32_MAX;
// A program that takes more than this is ended: a page must answer.
constexpr uint64_t kCycleLimit = uint64_t{1} << 30;

}  // namespace lds::lab
