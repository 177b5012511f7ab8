// The rows of INP that DEPTHWISE's steps read: those of its window that the step before did not read, one a cycle.
//
// In:   a step of the loops, in the cycle in which GEMM would read its tiles.
// Out:  of DEPTHWISE a row in each cycle, a cycle later, and the step in that of its last one; `hold`: the loops wait. Other
//       instructions pass as they are.
// Next: lds_macs.sv reads the row's tiles, and keeps them for the steps behind.
//
// A step whose window begins k row_strides below the one before needs k new rows. So that the cycles depend on the instruction alone, its
// first step reads all rows.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_window_rows (
    input logic clk,
    input logic clear,
    input logic start,  // of an instruction with loops
    input logic [127:0] insn,
    input logic valid,
    input logic [LA-1:0] dst,
    input logic [LI-1:0] src,
    input logic [LW-1:0] wgt,
    output logic hold,
    output logic is_window,
    output logic row,  // inp_tile is the first one of a row, which goes below the others
    output logic step,
    output logic [LA-1:0] step_dst,
    output logic [LI-1:0] inp_tile,
    output logic [LW-1:0] wgt_tile
);
  // Fields of the instruction, two cycles after its start: no step arrives before.
  logic [1:0] rows;
  logic [LI-1:0] row_stride;
  always_ff @(posedge clk) begin
    is_window <= insn[OPCODE_AT+:3] == OPCODE_DEPTHWISE;
    rows <= insn[DEPTHWISE_ROWS_AT+:2];
    row_stride <= LI'(insn[DEPTHWISE_ROW_STRIDE_AT+:LW]);
  end

  logic [1:0] left;  // rows that this step reads in later cycles
  logic kept;  // a step of this instruction has read its rows
  logic [LI-1:0] at, next_1, next_2;  // the row; the windows one and two rows below
  logic [LA-1:0] dst_1;
  logic [LW-1:0] wgt_1;
  assign hold = is_window && left != 0;
  wire one = kept && rows >= 2'd2 && src == next_1, two = kept && rows == 2'd3 && src == next_2;
  always_ff @(posedge clk) begin
    row <= is_window && (left != 0 || valid);
    if (left != 0) begin
      left <= left - 2'd1;
      at <= at + row_stride;
    end else if (is_window && valid) begin
      left <= one ? 2'd0 : two ? 2'd1 : rows - 2'd1;
      at <= one || two ? at + row_stride : src;
      next_1 <= src + row_stride;
      next_2 <= src + {row_stride[LI-2:0], 1'b0};
      {dst_1, wgt_1} <= {dst, wgt};
      kept <= 1'b1;
    end
    if (start) kept <= 1'b0;
    if (clear) begin
      left <= 2'd0;
      row <= 1'b0;
    end
  end

  assign step = is_window ? row && left == 0 : valid;
  assign step_dst = is_window ? dst_1 : dst;
  assign inp_tile = is_window ? at : src;
  assign wgt_tile = is_window ? wgt_1 : wgt;
endmodule
