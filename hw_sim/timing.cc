// Implementation of timing.h: the devices of one bus, whose requests enter its channel of reads in turn.
// SPDX-License-Identifier: Apache-2.0
#include "timing.h"

#include <algorithm>

#include "bus.h"
#include "device_timing.h"

namespace lds::sim {
namespace {

// Admits requests before `limit`, those of several devices in turn, burst by burst. True when a device may start another instruction now.
bool serve_reads_until(uint64_t limit, std::vector<DeviceTiming> &devices, Bus &bus, size_t *last) {
  for (;;) {
    uint64_t first = kNever;
    for (const DeviceTiming &d : devices)
      if (d.works()) first = std::min(first, d.next_request());
    if (first == kNever) return false;
    const uint64_t cycle = bus.reads.next_entry(first);
    if (cycle >= limit) return false;
    do *last = (*last + 1) % devices.size();
    while (!devices[*last].works() || devices[*last].next_request() > cycle);
    if (devices[*last].admit(cycle)) return true;
  }
}

void run_together(std::vector<DeviceTiming> &devices, Bus &bus) {
  size_t last = devices.size() - 1;  // the device whose request was admitted last
  for (DeviceTiming &d : devices) d.begin();
  for (;;) {
    DeviceTiming *next = nullptr;
    uint64_t cycle = kNever;
    for (DeviceTiming &d : devices) {
      if (!d.works()) continue;
      const uint64_t start = d.next_start();
      if (start < cycle) {
        cycle = start;
        next = &d;
      }
    }
    if (serve_reads_until(cycle, devices, bus, &last)) continue;  // a read is complete: another instruction may start now
    if (next == nullptr) break;
    next->start_next();
  }
  for (DeviceTiming &d : devices)
    if (d.works()) d.end();
}

}  // namespace

TimingOutcome time_program(const TimingInput &input, lds_sim_result *result, std::vector<lds_sim_event> *events) {
  return time_together({{&input, result, events}}).front();
}

std::vector<TimingOutcome> time_together(const std::vector<TimedProgram> &programs) {
  const TimingInput &first = *programs.front().input;
  Bus bus(first.constants, first.place_bytes != 0, programs.size() > 1);
  std::vector<DeviceTiming> devices;
  devices.reserve(programs.size());
  for (const TimedProgram &p : programs) devices.emplace_back(*p.input, p.result, p.events, &bus);
  run_together(devices, bus);
  std::vector<TimingOutcome> outcomes;
  for (DeviceTiming &d : devices) outcomes.push_back(d.outcome());
  return outcomes;
}

}  // namespace lds::sim
