// Implementation of lds_rtl.h: the verilated device, its clock, its registers, its memory.
//
// In:   Vlds_device, which Verilator generates from this folder for one device.
// Out:  a shared library with the functions of lds_rtl.h.
// Next: python/loadstone/vta/simulator/rtl_build.py compiles it.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>
#include <new>

#include "Vlds_device.h"
#include "axi_memory.h"
#include "lds_rtl.h"
#include "verilated.h"

using lds::rtl::AxiMemory;
using lds::rtl::Beat;

struct lds_rtl {
  lds_rtl() : top(std::make_unique<Vlds_device>(&context)), memory(LDS_RTL_BUS_BYTES) { reset(); }
  ~lds_rtl() { top->final(); }

  // One cycle: memory's responses, the device's outputs, the clock edge.
  void tick() {
    const uint64_t willing = next_willing();  // a bit for each channel
    const Beat read = willing & 1 ? memory.read_beat(now, data) : Beat{};
    top->m_axi_rvalid = read.valid;
    top->m_axi_rlast = read.last;
    top->m_axi_rresp = read.response;
    if (read.valid) std::memcpy(&top->m_axi_rdata, data, LDS_RTL_BUS_BYTES);
    const Beat written = willing & 2 ? memory.acknowledgement(now) : Beat{};
    top->m_axi_bvalid = written.valid;
    top->m_axi_bresp = written.response;
    top->m_axi_arready = willing >> 2 & 1;
    top->m_axi_awready = willing >> 3 & 1;
    top->m_axi_wready = willing >> 4 & 1;
    top->clk = 0;
    top->eval();
    if (top->m_axi_arvalid && top->m_axi_arready) memory.read_address(now, top->m_axi_araddr, top->m_axi_arlen + 1u);
    if (top->m_axi_awvalid && top->m_axi_awready) memory.write_address(top->m_axi_awaddr, top->m_axi_awlen + 1u);
    if (top->m_axi_wvalid && top->m_axi_wready) {
      std::memcpy(data, &top->m_axi_wdata, LDS_RTL_BUS_BYTES);
      memory.write_word(now, data, top->m_axi_wlast);
    }
    top->clk = 1;
    top->eval();
    ++now;
  }

  // All ones; with stalls, bits that change from cycle to cycle (xorshift).
  uint64_t next_willing() {
    if (stalls == 0) return ~uint64_t{0};
    stalls ^= stalls << 13;
    stalls ^= stalls >> 7;
    stalls ^= stalls << 17;
    return stalls >> 20;
  }

  void reset() {
    top->rst = 1;
    for (int k = 0; k < 4; ++k) tick();
    top->rst = 0;
    tick();
  }

  uint32_t read(uint32_t offset) {
    top->s_axi_arvalid = 1;
    top->s_axi_araddr = static_cast<uint16_t>(offset);
    top->s_axi_rready = 1;
    tick();  // accepted at once: there is no other request
    top->s_axi_arvalid = 0;
    const uint32_t value = top->s_axi_rdata;
    tick();
    return value;
  }

  void write(uint32_t offset, uint32_t value) {
    top->s_axi_awvalid = top->s_axi_wvalid = top->s_axi_bready = 1;
    top->s_axi_awaddr = static_cast<uint16_t>(offset);
    top->s_axi_wdata = value;
    tick();
    tick();  // accepted in the cycle after both are there
    top->s_axi_awvalid = top->s_axi_wvalid = 0;
    tick();
  }

  VerilatedContext context;
  std::unique_ptr<Vlds_device> top;
  AxiMemory memory;
  uint64_t now = 1, stalls = 0;
  uint8_t data[128] = {};
};

extern "C" {

lds_rtl *lds_rtl_create(void) {
  try {
    return new lds_rtl;
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void lds_rtl_destroy(lds_rtl *rtl) { delete rtl; }

int lds_rtl_map(lds_rtl *rtl, uint64_t bus_address, void *memory, uint64_t size_bytes, int read_only) {
  try {
    return rtl->memory.map(bus_address, static_cast<uint8_t *>(memory), size_bytes, read_only != 0) ? 0 : -1;
  } catch (const std::bad_alloc &) {
    return -1;
  }
}

void lds_rtl_unmap_all(lds_rtl *rtl) { rtl->memory.unmap_all(); }

void lds_rtl_memory_latency(lds_rtl *rtl, uint32_t latency_cycles, uint32_t burst_extra_cycles, uint32_t bursts_outstanding) {
  rtl->memory.set_latency(latency_cycles, burst_extra_cycles, bursts_outstanding);
}

void lds_rtl_memory_stalls(lds_rtl *rtl, uint64_t seed) { rtl->stalls = seed; }

uint32_t lds_rtl_read32(lds_rtl *rtl, uint32_t offset) { return rtl->read(offset); }

void lds_rtl_write32(lds_rtl *rtl, uint32_t offset, uint32_t value) { rtl->write(offset, value); }

void lds_rtl_hw_reset(lds_rtl *rtl) { rtl->reset(); }

int lds_rtl_step(lds_rtl *rtl, uint64_t cycles) {
  const auto before = rtl->top->irq;
  for (; cycles != 0 && rtl->top->irq == before; --cycles) rtl->tick();
  return rtl->top->irq;
}

int lds_rtl_irq(const lds_rtl *rtl) { return rtl->top->irq; }

uint64_t lds_rtl_now(const lds_rtl *rtl) { return rtl->now; }

void lds_rtl_bus_traffic(const lds_rtl *rtl, lds_rtl_traffic *out) { *out = rtl->memory.traffic(); }

void lds_rtl_peek(lds_rtl *rtl, uint32_t memory, uint32_t tile, void *out, uint32_t size_bytes) {
  rtl->top->probe_memory = static_cast<uint8_t>(memory);
  rtl->top->probe_tile = static_cast<uint16_t>(tile);
  rtl->top->eval();
  std::memcpy(out, &rtl->top->probe_data, size_bytes);
}

}  // extern "C"
