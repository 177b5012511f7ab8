// Weights from groups of 4 bits: LOADs of WGT_4BIT. A group has a head, a multiplier and a minimum for each lane, and the numbers of its tiles.
//
//   a word + 1: it is in `data`, and of numbers, their weights
//
// In:   words of groups, `last` with a LOAD's last one.
// Out:  in the cycle after: two words of weights, of a word of numbers.
// Next: lds_load_engine.sv; the receivers write them.
//
// What comes of LOADs comes one LOAD after the other, and each has whole groups.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_weight_groups (
    input logic clk,
    input logic clear,
    input logic take,
    input logic last,
    input logic [BUS_BITS-1:0] word,
    output logic [2*BUS_BITS-1:0] weights
);
  localparam int WORDS = NUMBER_WORDS << LOG_GROUP_TILES;  // of numbers
  localparam int AT_BITS = $clog2(WORDS > HEAD_WORDS ? WORDS : HEAD_WORDS) + 1;

  logic heads;  // the next word is of a group's head
  logic [AT_BITS-1:0] at, was_at;  // the next word's number in the head, or among the numbers; the one in `data`
  logic [BUS_BITS-1:0] data;
  logic [2*8*BLOCK-1:0] held;
  wire ends = 32'(at) == (heads ? HEAD_WORDS : WORDS) - 1;
  always_ff @(posedge clk) begin
    data <= word;
    was_at <= at;
    if (take && heads) held[32'(at)*BUS_BITS+:BUS_BITS] <= word;
    if (take) begin
      at <= ends ? '0 : at + 1'b1;
      if (ends) heads <= !heads;
    end
    if (clear || (take && last)) begin
      at <= '0;
      heads <= 1'b1;
    end
  end

  for (genvar n = 0; n < 2 * BUS_BYTES; n++) begin : g_weight
    wire [LOG_BLOCK-1:0] lane = LOG_BLOCK'((32'(was_at) * 2 * BUS_BYTES + n) >> LOG_BLOCK);  // of the output
    wire [7:0] multiplier = held[32'(lane)*8+:8], minimum = held[(BLOCK+32'(lane))*8+:8];
    wire [11:0] product = 12'(data[4*n+:4]) * 12'(multiplier) + 12'd4;
    assign weights[8*n+:8] = minimum + product[10:3];
  end
endmodule
