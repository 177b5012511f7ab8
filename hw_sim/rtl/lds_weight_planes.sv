// Weights from bit planes: LOADs of WGT_PLANES. A word has four planes of sixteen weights, the highest plane of each row of them first.
//
//   a word + 1: it is in `data`, and with it a row may be complete
//
// In:   words of the code, `last` with a LOAD's last one.
// Out:  in the cycle after: whether a row of weights is complete, which one of its tile, and its weights.
// Next: lds_load_engine.sv; the receivers write them.
//
// A row has four planes at least, so that a word never completes two. What comes of LOADs comes one LOAD after the other.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_weight_planes (
    input logic clk,
    input logic clear,
    input logic take,
    input logic last,
    input logic [BUS_BITS-1:0] word,
    output logic complete,
    output logic [WORD_INDEX_BITS-1:0] row,
    output logic tile_ends,  // with this row
    output logic [2*BUS_BITS-1:0] weights
);
  localparam int ROWS = BLOCK * BLOCK / PLANE_WEIGHTS;  // of a tile

  logic taken, was_last;
  logic [BUS_BITS-1:0] data;
  always_ff @(posedge clk) begin
    taken <= take && !clear;
    was_last <= last;
    data <= word;
  end

  logic heads;  // the word is the head of a group: the planes of each row, less four, and four mean as many
  logic [4*PLANE_WEIGHTS-1:0] counts;  // the row's lowest
  logic [3:0] at;  // the row's number in its group
  logic [2:0] have;  // planes of the row
  logic [7*PLANE_WEIGHTS-1:0] held;  // the row, as far as it has come, with its sign
  wire [3:0] count = counts[2] ? 4'd8 : {2'b01, counts[1:0]};
  wire [3:0] wants = count - 4'(have);
  wire ends = wants <= 4'd4;
  wire group_ends = ends && at == 4'd15;
  assign complete = taken && !heads && ends;
  assign tile_ends = 32'(row) == ROWS - 1;

  for (genvar n = 0; n < PLANE_WEIGHTS; n++) begin : g_weight
    wire first = data[n], second = data[PLANE_WEIGHTS+n], third = data[2*PLANE_WEIGHTS+n], fourth = data[3*PLANE_WEIGHTS+n];
    wire [6:0] above = have == 0 ? {7{first}} : held[7*n+:7];
    logic [7:0] weight;
    logic [6:0] behind;  // of the next row
    always_comb begin
      case (wants)
        4'd1: {weight, behind} = {above[6:0], first, {5{second}}, third, fourth};
        4'd2: {weight, behind} = {above[5:0], first, second, {6{third}}, fourth};
        4'd3: {weight, behind} = {above[4:0], first, second, third, {7{fourth}}};
        default: {weight, behind} = {above[3:0], first, second, third, fourth, 7'd0};
      endcase
    end
    assign weights[8*n+:8] = weight;
    always_ff @(posedge clk) if (taken && !heads) held[7*n+:7] <= ends ? behind : {above[2:0], first, second, third, fourth};
  end

  always_ff @(posedge clk) begin
    if (taken) begin
      heads <= group_ends && !heads;
      if (heads) begin
        counts <= data;
        at <= '0;
        have <= '0;
      end else if (ends) begin
        counts <= counts >> 4;
        at <= at + 4'd1;
        have <= 3'(4'd4 - wants);
      end else have <= have + 3'd4;
      if (complete) row <= tile_ends ? '0 : row + 1'b1;
    end
    if (clear || (taken && was_last)) begin
      heads <= 1'b1;
      row <= '0;
    end
  end
endmodule
