// Arbitrary configurations, options and streams: the simulator neither crashes nor hangs, and all kernels agree.
//
// In:   libFuzzer's bytes: a header of kHeader bytes, then instructions. Memory is filled from the same bytes.
// Out:  a report of ASan or UBSan, or an abort, when something is wrong.
// Next: tests/fuzz/__main__.py builds and runs it, from seeds that are legal programs.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lds_sim.h"

namespace {

constexpr size_t kHeader = 32;
constexpr uint64_t kBase = 0x1000, kCycleLimit = 20000;
constexpr size_t kMaxScratchpadBytes = size_t{1} << 16;

// Header: 20 bytes of lds_hw_config, bus width, options, read_burst_extra_cycles, read_requests_in_flight, stage_queue_entries,
// burst_boundary (log2), segment split, region size (2 bytes), zeros.
struct Run {
  int status;
  lds_sim_result result;
  std::vector<uint8_t> memory;
};

size_t log2_sum(const lds_hw_config &c) {
  size_t most = 0;
  for (uint8_t log : {c.log_uop_buff, c.log_inp_buff, c.log_wgt_buff, c.log_acc_buff}) most = log > most ? log : most;
  return most;
}

Run simulate(const uint8_t *data, size_t size, const lds_hw_config &config, int kernels) {
  Run run = {};
  const uint32_t buses[8] = {32, 64, 128, 256, 512, 64, 64, 0};
  lds_sim *sim = lds_sim_create(&config, buses[data[20] & 7]);
  if (sim == nullptr) {
    run.status = -100;
    return run;
  }
  for (int option = LDS_SIM_STRICT; option <= LDS_SIM_TRACE; ++option) (void)lds_sim_set_option(sim, option, data[21] >> option & 1);
  if (lds_sim_set_option(sim, LDS_SIM_KERNELS, kernels) != LDS_SIM_OK) (void)lds_sim_set_option(sim, LDS_SIM_KERNELS, 0);
  (void)lds_sim_set_timing(sim, "read_burst_extra_cycles", data[22]);
  (void)lds_sim_set_timing(sim, "read_requests_in_flight", data[23]);
  (void)lds_sim_set_timing(sim, "stage_queue_entries", data[24] == 0 ? 512 : data[24]);
  (void)lds_sim_set_timing(sim, "burst_boundary_bytes", int64_t{1} << (data[25] & 31));
  run.memory.resize(16384);
  for (size_t k = 0; k < run.memory.size(); ++k) run.memory[k] = data[k % size];
  const size_t split = size_t{data[26]} * 64;
  (void)lds_sim_map(sim, kBase, run.memory.data(), split, 0);
  (void)lds_sim_map(sim, kBase + split, run.memory.data() + split, run.memory.size() - split, data[21] >> 5 & 1);
  const uint64_t region_size = data[27] | uint64_t{data[28]} << 8;
  for (uint32_t r = 0; r < 8; ++r) (void)lds_sim_set_region(sim, r, kBase + r * 64, region_size | uint64_t{r == 7} << 63);
  const uint32_t count = static_cast<uint32_t>((size - kHeader) / LDS_INSN_BYTES);
  std::vector<uint8_t> stream(data + kHeader, data + kHeader + size_t{count} * LDS_INSN_BYTES);
  (void)lds_sim_map(sim, 0x100000, stream.data(), stream.size(), LDS_SIM_READ_ONLY);
  const uint64_t at = (data[21] >> 6 & 1) != 0 ? kBase : 0x100000;  // or some of the memory itself, that it may store over
  run.status = lds_sim_run(sim, at, count, kCycleLimit, &run.result);
  const lds_sim_finding *findings = nullptr;
  const lds_sim_event *events = nullptr;
  size_t sum = lds_sim_findings(sim, &findings) + lds_sim_events(sim, &events) + std::strlen(lds_sim_message(sim));
  if (sum == 0 && run.status > 0) std::abort();  // an error without a message
  if (run.status >= 0 && static_cast<uint32_t>(run.status) != run.result.status) std::abort();
  lds_sim_destroy(sim);
  return run;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < kHeader) return 0;
  lds_hw_config config;
  std::memcpy(&config, data, sizeof config);
  if (log2_sum(config) < 40 && (size_t{1} << log2_sum(config)) > kMaxScratchpadBytes) return 0;
  const Run portable = simulate(data, size, config, LDS_SIM_KERNELS_PORTABLE);
  for (int kernels : {LDS_SIM_KERNELS_AVX2, LDS_SIM_KERNELS_AVX512, LDS_SIM_KERNELS_NEON, LDS_SIM_KERNELS_WASM}) {
    const Run other = simulate(data, size, config, kernels);
    if (other.status != portable.status || other.memory != portable.memory) std::abort();
    if (std::memcmp(&other.result, &portable.result, sizeof other.result) != 0) std::abort();
  }
  return 0;
}
