// The store stage: tiles of OUT to DRAM, burst by burst.
//
// In:   its queue's head; tiles of OUT; AXI's responses.
// Out:  AXI's writes; `done` when the last one is acknowledged: a token of this stage means that the bytes are in DRAM.
// Next: lds_device.sv.
//
//   start + 2: address and first word.  A word a cycle; with STORE_TILE_CYCLES a tile takes that long.  last acknowledge: done.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_store_stage (
    input logic clk,
    input logic clear,
    input logic halt,  // no new burst; one that has begun is completed
    input logic start,
    input entry_t head,
    input entry_t running,
    input region_t [MAX_REGIONS-1:0] regions,
    output logic out_read,
    output logic [LA-1:0] out_tile,
    input logic [INP_BITS-1:0] out_data,  // in the cycle after
    output logic done,
    output error_t error,  // a cycle later
    output logic idle,  // no burst is in flight
    output logic [15:0] bytes,  // bytes that are written in this cycle
    // AXI4
    output logic awvalid,
    input logic awready,
    output logic [63:0] awaddr,
    output logic [7:0] awlen,
    output logic wvalid,
    input logic wready,
    output logic [BUS_BITS-1:0] wdata,
    output logic wlast,
    input logic bvalid,
    input logic [1:0] bresp
);
  localparam int ROW_BITS = 16 + LOG_LANES;
  localparam int PAUSE = STORE_TILE_CYCLES > INP_WORDS ? STORE_TILE_CYCLES - INP_WORDS : 0;
  localparam int WORD_LOG = INP_WORDS > 1 ? $clog2(INP_WORDS) : 1;

  logic begins, checked, second, sends;  // sends: a burst is in flight
  wire [127:0] insn = running.insn;
  wire [15:0] y_size = insn[MEMORY_Y_SIZE_AT+:16], x_size = insn[MEMORY_X_SIZE_AT+:16], x_stride = insn[MEMORY_X_STRIDE_AT+:16];
  wire moves = head.insn[MEMORY_X_SIZE_AT+:16] != 0 && head.insn[MEMORY_Y_SIZE_AT+:16] != 0;

  logic [63:0] address, bad_address;
  logic [16:0] width_unused;
  logic [3:0] bad;
  logic fits_nothing_unused, fine;
  lds_load_check #(.WRITES(1'b1)) check (
      .clk, .head(head.insn), .insn, .begins, .regions, .address, .width(width_unused), .fits_nothing(fits_nothing_unused), .fine, .error(bad),
      .error_address(bad_address)
  );

  logic asks, single, last, grant;
  logic [63:0] burst_address;
  logic [8:0] beats;
  lds_bursts #(.ROW_BITS(ROW_BITS)) bursts (
      .clk, .clear, .setup(begins), .address, .row_bytes(ROW_BITS'(x_size) << LOG_LANES), .rows(y_size),
      .stride_bytes(ROW_BITS'(x_stride) << LOG_LANES), .delay(4'd0), .request(asks), .request_address(burst_address), .request_beats(beats),
      .single, .last, .grant
  );

  // --- the address, once a burst --------------------------------------------------------------------------
  logic addressed;  // the burst's address has been accepted
  wire burst = asks && fine && (!halt || sends);
  assign awvalid = burst && !addressed;
  assign awaddr = burst_address;
  assign awlen = 8'(beats - 9'd1);

  // --- its words ------------------------------------------------------------------------------------------
  logic [LA-1:0] tile;
  logic [WORD_LOG-1:0] word;
  logic [3:0] pause;
  logic [8:0] sent, ahead_of_last;  // ahead_of_last: words before the burst's last one, known from its second cycle on
  logic sent_all;
  logic was_last;  // the burst is the last one: the request is held for two cycles at least
  assign wvalid = burst && !sent_all && pause == 0;
  assign wdata = out_data[32'(word)*BUS_BITS+:BUS_BITS];
  assign wlast = sent == 0 ? single : sent == ahead_of_last;
  wire takes = wvalid && wready;
  wire tile_ends = takes && (INP_WORDS == 1 || 32'(word) == INP_WORDS - 1);
  assign out_read = begins || tile_ends;
  assign out_tile = begins ? LA'(insn[MEMORY_SRAM_BASE_AT+:16]) : tile;
  assign bytes = takes ? 16'(BUS_BYTES) : 16'd0;

  assign grant = sends && bvalid;
  wire failed = grant && bresp != 2'd0;
  assign idle = !sends;
  assign done = second || (grant && was_last && !failed);

  always_ff @(posedge clk) begin
    error <= '{
        valid: ((checked && !fine) || failed) && !clear,
        code: failed ? ERROR_BUS : bad,
        index: running.index,
        address: failed ? burst_address[31:0] : bad_address[31:0]
    };
    begins <= start && moves && !clear;
    checked <= begins && !clear;
    was_last <= last;
    ahead_of_last <= beats - 9'd1;
    second <= start && !moves && !clear;
    if (begins) tile <= LA'(insn[MEMORY_SRAM_BASE_AT+:16]) + 1'b1;
    else if (tile_ends) tile <= tile + 1'b1;
    if (begins || tile_ends) begin
      word <= '0;
      pause <= 4'(PAUSE);
    end else begin
      if (takes && INP_WORDS > 1) word <= word + 1'b1;
      if (pause != 0 && burst && !sent_all) pause <= pause - 1'b1;
    end
    if (begins || grant) begin
      sent <= 9'd0;
      sent_all <= 1'b0;
      addressed <= 1'b0;
    end else begin
      if (takes) sent <= sent + 9'd1;
      if (takes && wlast) sent_all <= 1'b1;
      if (awvalid && awready) addressed <= 1'b1;
    end
    if (grant) sends <= 1'b0;
    else if (burst) sends <= 1'b1;
    if (clear) sends <= 1'b0;
  end

`ifdef FORMAL_LDS_STORE_STAGE
`include "proofs/lds_store_stage.svh"
`endif
endmodule
