// The native page of registers (runtime and driver: regs_native.c) behind AXI4-Lite, and the interrupt.
//
// In:   accesses of the host; the state of the program.
// Out:  START, ABORT, SOFT_RESET as pulses; the address of the stream; the regions; the interrupt line.
// Next: lds_device.sv. The parameters of a program cannot be changed while it runs.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_registers (
    input logic clk,
    input logic rst,
    // AXI4-Lite
    input logic awvalid,
    output logic awready,
    input logic [11:0] awaddr,
    input logic wvalid,
    output logic wready,
    input logic [31:0] wdata,
    output logic bvalid,
    input logic bready,
    input logic arvalid,
    output logic arready,
    input logic [11:0] araddr,
    output logic rvalid,
    input logic rready,
    output logic [31:0] rdata,
    output logic irq,
    // the program
    output logic start,
    output logic abort,
    output logic soft_reset,
    output logic [63:0] stream_address,
    output logic [31:0] stream_count,
    output region_t [MAX_REGIONS-1:0] regions,
    input logic [2:0] state,
    input logic ended,
    input logic [3:0] error,
    input logic [31:0] error_pc,
    input logic [31:0] error_address,
    input logic [31:0] progress,
    input logic [63:0] cycles,
    input logic [2:0][63:0] busy,
    input logic [63:0] read_bytes,
    input logic [63:0] write_bytes
);
  localparam logic [31:0] MASK = IRQ_DONE | IRQ_ERROR;
  logic [31:0] irq_status, irq_mask;
  logic was_running, reports;
  wire running = state == STATE_RUNNING;

  assign irq = (irq_status & irq_mask) != 0;
  // Address and data are taken together, in the cycle after both are there: no output depends on an input of the same cycle.
  logic ready;
  wire write = awvalid && wvalid && ready;
  assign awready = ready;
  assign wready = ready;
  assign arready = !rvalid;

  wire [2:0] number = awaddr[5:3];  // of a region: both blocks begin at a multiple of 64
  wire is_base = awaddr[11:6] == REG_REGION_BASE[11:6], is_limit = awaddr[11:6] == REG_REGION_LIMIT[11:6];

  always_ff @(posedge clk) begin
    start <= 1'b0;
    abort <= 1'b0;
    soft_reset <= 1'b0;
    was_running <= running;
    ready <= awvalid && wvalid && !ready && !bvalid && !rst;
    if (bready) bvalid <= 1'b0;
    if (write) begin
      bvalid <= 1'b1;
      if (!running) begin
        if (is_base && awaddr[2]) regions[number].base[63:32] <= wdata;
        if (is_base && !awaddr[2]) regions[number].base[31:0] <= wdata;
        if (is_limit && awaddr[2]) regions[number].limit[63:32] <= wdata;
        if (is_limit && !awaddr[2]) regions[number].limit[31:0] <= wdata;
        if (awaddr == REG_INSN_BASE_LO) stream_address[31:0] <= wdata;
        if (awaddr == REG_INSN_BASE_HI) stream_address[63:32] <= wdata;
        if (awaddr == REG_INSN_COUNT) stream_count <= wdata;
      end
      if (awaddr == REG_CTRL) begin
        start <= wdata[0] && !running;
        soft_reset <= wdata[1];
        abort <= wdata[2] && running;
      end
      if (awaddr == REG_IRQ_STATUS) irq_status <= irq_status & ~wdata;
      if (awaddr == REG_IRQ_MASK) irq_mask <= wdata & MASK;
    end
    // A program has ended when the state says so; a SOFT_RESET ends it without an interrupt.
    if (was_running && !running && state == STATE_DONE) irq_status <= irq_status | IRQ_DONE;
    if (was_running && !running && state == STATE_ERROR) irq_status <= irq_status | IRQ_ERROR;
    if (rst || (ended && reports)) begin
      irq_status <= 32'd0;
      irq_mask <= 32'd0;
      stream_address <= 64'd0;
      stream_count <= 32'd0;
      regions <= '0;
    end
    reports <= soft_reset || (reports && !ended);
    if (rst) begin
      bvalid <= 1'b0;
      reports <= 1'b0;
      was_running <= 1'b0;
    end
  end

  wire [2:0] asked = araddr[5:3];
  logic [31:0] value;
  function automatic logic [31:0] half(input logic [63:0] both, input logic high);
    half = high ? both[63:32] : both[31:0];
  endfunction
  always_comb begin
    value = 32'd0;
    case ({araddr[11:2], 2'b00})
      REG_ID: value = NATIVE_ID_VALUE;
      REG_VERSION: value = NATIVE_VERSION_VALUE;
      REG_CONFIG_HASH: value = CONFIG_HASH;
      REG_CAPS: value = CAPABILITIES;
      REG_STATUS: value = 32'(state);
      REG_IRQ_STATUS: value = irq_status;
      REG_IRQ_MASK: value = irq_mask;
      REG_ERROR: value = 32'(error);
      REG_ERROR_PC: value = error_pc;
      REG_ERROR_ADDR: value = error_address;
      REG_INSN_BASE_LO: value = stream_address[31:0];
      REG_INSN_BASE_HI: value = stream_address[63:32];
      REG_INSN_COUNT: value = stream_count;
      REG_INSN_PC: value = progress;
      REG_CYCLES, REG_CYCLES + 12'd4: value = half(cycles, araddr[2]);
      REG_LOAD_BUSY, REG_LOAD_BUSY + 12'd4: value = half(busy[0], araddr[2]);
      REG_COMPUTE_BUSY, REG_COMPUTE_BUSY + 12'd4: value = half(busy[1], araddr[2]);
      REG_STORE_BUSY, REG_STORE_BUSY + 12'd4: value = half(busy[2], araddr[2]);
      REG_READ_BYTES, REG_READ_BYTES + 12'd4: value = half(read_bytes, araddr[2]);
      REG_WRITE_BYTES, REG_WRITE_BYTES + 12'd4: value = half(write_bytes, araddr[2]);
      default: begin
        if (araddr[11:6] == REG_REGION_BASE[11:6]) value = half(regions[asked].base, araddr[2]);
        if (araddr[11:6] == REG_REGION_LIMIT[11:6]) value = half(regions[asked].limit, araddr[2]);
      end
    endcase
  end
  always_ff @(posedge clk) begin
    if (arvalid && arready) begin
      rvalid <= 1'b1;
      rdata <= value;
    end else if (rready) rvalid <= 1'b0;
    if (rst) rvalid <= 1'b0;
  end

`ifdef FORMAL_LDS_REGISTERS
`include "proofs/lds_registers.svh"
`endif
endmodule
