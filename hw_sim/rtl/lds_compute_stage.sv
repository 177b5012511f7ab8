// The compute stage: GEMM, DEPTHWISE, ALU, LOADs of UOP, ACC and ACC_8BIT, CONFIG, FINISH.
//
// In:   its queue's head; the read channel; the load stage's writes into INP and WGT, the store stage's into INP.
// Out:  `done` in the last cycle of each instruction, `finish` with FINISH; tiles of OUT for the store stage.
// Next: lds_device.sv.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_compute_stage (
    input logic clk,
    input logic clear,
    input logic start,
    input entry_t head,
    input entry_t running,
    input region_t [MAX_REGIONS-1:0] regions,
    output logic request,
    output logic refused,
    output logic request_first,  // the request is for micro-ops
    output logic [63:0] request_address,
    output logic [8:0] request_beats,
    input logic grant,
    input logic beat,
    input logic [BUS_BITS-1:0] beat_data,
    input write_t load_write,
    input tile_write_t store_write,
    input logic out_read,
    input logic [LA-1:0] out_tile,
    output logic [OUT_BITS-1:0] out_data,
    output logic [15:0] bytes,
    output logic done,
    output logic finish,
    output error_t error
);
  localparam int SLOW = 12, READ_PORTS = ALU_TENSOR_STEP_CYCLES == 1 ? 2 : 1;

  wire [2:0] opcode = head.insn[OPCODE_AT+:3];
  wire moves = opcode == OPCODE_LOAD && head.insn[MEMORY_X_SIZE_AT+:16] != 0;
  wire loops = opcode == OPCODE_GEMM || opcode == OPCODE_ALU || (CAN_DEPTHWISE && opcode == OPCODE_DEPTHWISE);
  wire accepted = start && !head.refused;

  // --- CONFIG, and instructions of two cycles ----------------------------------------------------------
  logic [31:0] zero_point, low, high;
  logic [1:0] rounding;
  logic [7:0] pad_value;
  logic second;
  assign finish = accepted && opcode == OPCODE_FINISH;
  always_ff @(posedge clk) begin
    second <= accepted && !moves && !loops && !finish && !clear;
    if (accepted && opcode == OPCODE_CONFIG)
      case (head.insn[CONFIG_REGISTER_ID_AT+:6])
        CONFIG_PAD_VALUE: pad_value <= head.insn[CONFIG_VALUE_AT+:8];
        CONFIG_RQ_ZERO_POINT: zero_point <= head.insn[CONFIG_VALUE_AT+:32];
        CONFIG_RQ_MIN: low <= head.insn[CONFIG_VALUE_AT+:32];
        CONFIG_RQ_MAX: high <= head.insn[CONFIG_VALUE_AT+:32];
        default: rounding <= head.insn[CONFIG_VALUE_AT+:2];
      endcase
    if (clear) begin
      pad_value <= DEFAULT_PAD_VALUE[7:0];
      zero_point <= DEFAULT_RQ_ZERO_POINT;
      low <= DEFAULT_RQ_MIN;
      high <= DEFAULT_RQ_MAX;
      rounding <= DEFAULT_RQ_ROUNDING[1:0];
    end
  end

  // --- LOAD ---------------------------------------------------------------------------------------------
  write_t write;
  logic loaded;
  error_t load_error;
  wire [2:0] memory = running.insn[MEMORY_MEMORY_ID_AT+:3];
  lds_load_engine engine (
      .clk, .clear, .start(accepted && moves), .head, .running, .regions, .pad_value(memory == MEMORY_ACC_8BIT ? pad_value : 8'd0), .request, .refused,
      .request_address, .request_beats, .grant, .beat, .beat_data, .write, .bytes, .done(loaded), .error(load_error)
  );
  assign request_first = memory == MEMORY_UOP;

  // --- GEMM, DEPTHWISE, ALU ----------------------------------------------------------------------------------------
  logic hold, reads_rows, uop_read, valid, over, looped, runs;
  logic [UOP_INDEX_BITS-1:0] uop_at;
  logic [31:0] uop;
  logic [LA-1:0] dst;
  logic [SRC_BITS-1:0] src;
  logic [LW-1:0] wgt;
  lds_uop_ram uop_ram (.clk, .write, .read(uop_read), .read_at(uop_at), .read_data(uop));
  lds_loops #(.DRAIN_CYCLES(6), .SLOW_CYCLES(SLOW - 1)) nest (
      .clk, .clear, .start(accepted && loops), .head(head.insn), .insn(running.insn), .hold(hold || reads_rows), .uop_read, .uop_at, .uop, .valid, .dst, .src,
      .wgt, .over, .done(looped)
  );

  logic [ACC_BITS-1:0] sums, data_a, data_b, write_data;
  logic [LA-1:0] read_a, read_b, write_at;
  logic acc_write;
  logic step, is_window, last_row;
  logic [LA-1:0] step_dst;
  logic [LI-1:0] inp_tile;
  logic [LW-1:0] wgt_tile;
  if (CAN_DEPTHWISE) begin : g_windows
    lds_window_rows window_rows (
        .clk, .clear, .start(accepted && loops), .insn(running.insn), .valid(valid && !over), .dst, .src(src[LI-1:0]), .wgt, .hold(reads_rows),
        .is_window, .row(last_row), .step, .step_dst, .inp_tile, .wgt_tile
    );
  end else begin : g_no_windows
    assign {reads_rows, is_window, last_row} = '0;
    assign {step, step_dst, inp_tile, wgt_tile} = {valid && !over, dst, src[LI-1:0], wgt};
  end
  lds_macs macs (.clk, .write(load_write), .store(store_write), .insn(running.insn), .is_window, .row(last_row), .src(inp_tile), .wgt(wgt_tile), .sums);
  lds_execute #(.SLOW(SLOW), .READ_PORTS(READ_PORTS)) execute (
      .clk, .clear, .between(!runs), .insn(running.insn), .valid(step), .dst(step_dst), .src(src[LA-1:0]), .hold, .sums, .zero_point, .low,
      .high, .rounding, .read_a, .data_a, .read_b, .data_b, .write(acc_write), .write_at, .write_data
  );
  lds_acc_ram #(.READ_PORTS(READ_PORTS)) acc_ram (
      .clk, .load(write), .write(acc_write), .write_at, .write_data, .read_a, .data_a, .read_b, .data_b, .out_read, .out_tile, .out_data
  );

  // --- ends ---------------------------------------------------------------------------------------------
  assign done = second || loaded || looped;
  always_ff @(posedge clk) begin
    if (accepted && loops) runs <= 1'b1;
    else if (looped) runs <= 1'b0;
    if (clear) runs <= 1'b0;
  end
  logic was_refused, was_over;  // in the cycle before: the instruction still runs
  always_ff @(posedge clk) begin
    was_refused <= start && head.refused && !clear;
    was_over <= over && !clear;
  end
  always_comb begin
    error = load_error;
    if (was_refused) error = '{valid: 1'b1, code: ERROR_BAD_INSTRUCTION, index: running.index, address: 32'd0};
    else if (was_over) error = '{valid: 1'b1, code: ERROR_SRAM_BOUNDS, index: running.index, address: 32'd0};
  end
endmodule
