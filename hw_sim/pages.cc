// The register pages of a simulated device: native, VTA's Chisel shell, VTA's HLS blocks.
//
// In:   an offset, a value.
// Out:  the registers of device.h, read or changed; jobs started and stopped.
// Next: device.cc, which is the same for all pages.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "device.h"

namespace {

void set_half(uint64_t *v, bool high, uint32_t half) {
  *v = high ? (*v & 0xFFFFFFFFu) | uint64_t{half} << 32 : (*v & ~uint64_t{0xFFFFFFFFu}) | half;
}

uint32_t half_of(uint64_t v, bool high) { return static_cast<uint32_t>(high ? v >> 32 : v); }

}  // namespace

uint32_t lds_simdev::read_native(uint32_t offset) {
  if (offset >= LDS_NATIVE_REGION_BASE && offset < LDS_NATIVE_REGION_BASE + 64u)
    return half_of(regs_.region_base[(offset - LDS_NATIVE_REGION_BASE) / 8u], (offset & 4u) != 0);
  if (offset >= LDS_NATIVE_REGION_LIMIT && offset < LDS_NATIVE_REGION_LIMIT + 64u)
    return half_of(regs_.region_limit[(offset - LDS_NATIVE_REGION_LIMIT) / 8u], (offset & 4u) != 0);
  if (offset >= LDS_NATIVE_CYCLES && offset < LDS_NATIVE_WRITE_BYTES + 8u) return half_of(counter(offset & ~4u), (offset & 4u) != 0);
  switch (offset) {
    case LDS_NATIVE_ID:
      return LDS_NATIVE_ID_VALUE;
    case LDS_NATIVE_VERSION:
      return LDS_NATIVE_VERSION_VALUE;
    case LDS_NATIVE_CONFIG_HASH:
      return hash_;
    case LDS_NATIVE_CAPS:
      return config_.capabilities;
    case LDS_NATIVE_STATUS:
      return regs_.state;
    case LDS_NATIVE_IRQ_STATUS:
      return regs_.irq_status;
    case LDS_NATIVE_IRQ_MASK:
      return regs_.irq_mask;
    case LDS_NATIVE_ERROR:
      return regs_.error;
    case LDS_NATIVE_ERROR_PC:
      return regs_.error_pc;
    case LDS_NATIVE_ERROR_ADDR:
      return regs_.error_addr;
    case LDS_NATIVE_INSN_BASE_LO:
    case LDS_NATIVE_INSN_BASE_HI:
      return half_of(regs_.insn_base, offset == LDS_NATIVE_INSN_BASE_HI);
    case LDS_NATIVE_INSN_COUNT:
      return regs_.insn_count;
    case LDS_NATIVE_INSN_PC:
      return running_ ? lds_sim_progress(sim_.get()) : regs_.pc;
    default:
      return 0;
  }
}

uint64_t lds_simdev::counter(uint32_t offset) const {
  uint64_t read = 0;
  for (const uint64_t bytes : result_.read_bytes) read += bytes;
  switch (offset) {
    case LDS_NATIVE_CYCLES:
      return result_.cycles;
    case LDS_NATIVE_LOAD_BUSY:
    case LDS_NATIVE_COMPUTE_BUSY:
    case LDS_NATIVE_STORE_BUSY:
      return result_.busy_cycles[(offset - LDS_NATIVE_LOAD_BUSY) / 8u];
    case LDS_NATIVE_READ_BYTES:
      return read;
    default:
      return result_.write_bytes;
  }
}

void lds_simdev::write_native(Lock &lock, uint32_t offset, uint32_t value) {
  const bool idle = regs_.state != LDS_STATE_RUNNING;  // the parameters of a running job cannot be changed
  if (offset >= LDS_NATIVE_REGION_BASE && offset < LDS_NATIVE_REGION_BASE + 64u && idle)
    return set_half(&regs_.region_base[(offset - LDS_NATIVE_REGION_BASE) / 8u], (offset & 4u) != 0, value);
  if (offset >= LDS_NATIVE_REGION_LIMIT && offset < LDS_NATIVE_REGION_LIMIT + 64u && idle)
    return set_half(&regs_.region_limit[(offset - LDS_NATIVE_REGION_LIMIT) / 8u], (offset & 4u) != 0, value);
  switch (offset) {
    case LDS_NATIVE_CTRL:
      if ((value & LDS_CTRL_ABORT) != 0 && !idle) stop(lock, kAbort);
      if ((value & LDS_CTRL_SOFT_RESET) != 0) stop(lock, kSoftReset);
      if ((value & LDS_CTRL_START) != 0) start();
      return;
    case LDS_NATIVE_IRQ_STATUS:
      regs_.irq_status &= ~value;
      return update_line();
    case LDS_NATIVE_IRQ_MASK:
      regs_.irq_mask = value & (LDS_IRQ_DONE | LDS_IRQ_ERROR);
      return update_line();
    case LDS_NATIVE_INSN_BASE_LO:
    case LDS_NATIVE_INSN_BASE_HI:
      if (idle) set_half(&regs_.insn_base, offset == LDS_NATIVE_INSN_BASE_HI, value);
      return;
    case LDS_NATIVE_INSN_COUNT:
      if (idle) regs_.insn_count = value;
      return;
    default:
      return;
  }
}

uint32_t lds_simdev::read_chisel(uint32_t offset) const {
  switch (offset) {
    case LDS_CHISEL_CONTROL:
      return regs_.state == LDS_STATE_DONE ? LDS_CHISEL_DONE : regs_.state == LDS_STATE_RUNNING ? LDS_CHISEL_START : 0u;
    case LDS_CHISEL_CYCLES:
      return static_cast<uint32_t>(result_.cycles);
    case LDS_CHISEL_INSN_COUNT:
      return regs_.insn_count;
    case LDS_CHISEL_INSN_BASE:
      return static_cast<uint32_t>(regs_.insn_base);
    default:
      return 0;
  }
}

void lds_simdev::write_chisel(uint32_t offset, uint32_t value) {
  switch (offset) {
    case LDS_CHISEL_CONTROL:
      if ((value & LDS_CHISEL_START) != 0) start();
      return;
    case LDS_CHISEL_INSN_COUNT:
      regs_.insn_count = value;
      return;
    case LDS_CHISEL_INSN_BASE:
      regs_.insn_base = value;
      return;
    default:  // bases are ORed into addresses; ours are 0
      return;
  }
}

namespace {

constexpr uint32_t hls_controls[3] = {LDS_HLS_LOAD_CONTROL, LDS_HLS_COMPUTE_CONTROL, LDS_HLS_STORE_CONTROL};

}  // namespace

// Fetch counts as idle once the program has ended. In hardware it may be idle earlier, when its queues hold the rest, but not later.
uint32_t lds_simdev::read_hls(uint32_t offset) {
  for (int k = 0; k < 3; ++k)
    if (offset == hls_controls[k]) return regs_.hls_running[k] ? LDS_HLS_AUTO_RESTART : LDS_HLS_IDLE;
  switch (offset) {
    case LDS_HLS_FETCH_CONTROL:
      return regs_.hls_fetch || regs_.state == LDS_STATE_RUNNING ? LDS_HLS_START : LDS_HLS_IDLE;
    case LDS_HLS_COMPUTE_DONE:
    case LDS_HLS_COMPUTE_DONE_VALID:
      return read_done(offset);
    case LDS_HLS_FETCH_INSN_COUNT:
      return regs_.insn_count;
    case LDS_HLS_FETCH_INSN_BASE:
      return static_cast<uint32_t>(regs_.insn_base);
    default:
      return 0;
  }
}

// An output of the compute block: a register that keeps its value, and a valid bit that a write sets and a read clears.
uint32_t lds_simdev::read_done(uint32_t offset) {
  if (lingers_ > 0) {
    --lingers_;
    return offset == LDS_HLS_COMPUTE_DONE ? lingering_ : 0u;
  }
  if (offset == LDS_HLS_COMPUTE_DONE) return regs_.hls_done;
  return std::exchange(regs_.hls_valid, false) ? LDS_HLS_VALID : 0u;
}

void lds_simdev::write_hls(uint32_t offset, uint32_t value) {
  for (int k = 0; k < 3; ++k)
    if (offset == hls_controls[k]) regs_.hls_running[k] = value == LDS_HLS_AUTO_RESTART;
  if (offset == LDS_HLS_FETCH_INSN_COUNT) regs_.insn_count = value;
  if (offset == LDS_HLS_FETCH_INSN_BASE) regs_.insn_base = value;
  if (offset == LDS_HLS_FETCH_CONTROL) regs_.hls_fetch = (value & LDS_HLS_START) != 0;
  if (regs_.hls_fetch && regs_.hls_running[0] && regs_.hls_running[1] && regs_.hls_running[2]) {
    regs_.hls_fetch = false;
    start();
  }
}

// --- any page --------------------------------------------------------------------------------------------------------------------
// The value that a fault makes a register read.
std::optional<uint32_t> lds_simdev::instead(uint32_t offset) const {
  const uint32_t says_done[3] = {LDS_NATIVE_STATUS, LDS_CHISEL_CONTROL, LDS_HLS_COMPUTE_DONE};
  return !all_read_ && offset == says_done[page_] ? done_reads_ : all_read_;
}

uint32_t lds_simdev::read(uint32_t offset) {
  look();
  Lock lock(mutex_);
  if (const std::optional<uint32_t> other = instead(offset)) return *other;
  if (page_ == LDS_SIMDEV_CHISEL) return read_chisel(offset);
  if (page_ == LDS_SIMDEV_HLS) return read_hls(offset);
  return read_native(offset);
}

void lds_simdev::write(uint32_t offset, uint32_t value) {
  Lock lock(mutex_);
  if (all_read_) return;
  if (page_ == LDS_SIMDEV_CHISEL) return write_chisel(offset, value);
  if (page_ == LDS_SIMDEV_HLS) return write_hls(offset, value);
  write_native(lock, offset, value);
}

uint32_t lds_simdev_read32(lds_simdev *device, uint32_t offset) { return device->read(offset); }

void lds_simdev_write32(lds_simdev *device, uint32_t offset, uint32_t value) { device->write(offset, value); }
