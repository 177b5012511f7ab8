// Requantizes what the store stage sends: tiles of ACC, by operand tiles of each STORE or of each of its rows.
//
//   begins + 1, 2, 3: bias, multiplier, shift are read -> + 4: a tile a cycle -> + 17: it is in the queue
//
// In:   a STORE that requantizes, in the cycle after its start; the registers that CONFIG set; tiles of ACC.
// Out:  requantized tiles, in order, from a queue; the store stage takes them at the speed of the bus.
// Next: lds_store_stage.sv.
//
// The lanes cannot wait: no more tiles are under way than the queue holds. A new row's operands are read behind the last tile of the row
// before, which has left the registers when they change. The store stage waits as long at each row, so that the queue is never empty.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_store_rq #(
    parameter int LOG_QUEUE = 5
) (
    input logic clk,
    input logic clear,
    input logic begins,
    input logic [127:0] insn,
    input logic [31:0] zero_point,
    input logic [31:0] low,
    input logic [31:0] high,
    input logic [1:0] rounding,
    output logic read,
    output logic [LA-1:0] read_at,
    input logic [ACC_BITS-1:0] data,  // in the cycle after
    output logic [INP_BITS-1:0] tile,
    output logic some,  // there is a tile
    input logic take
);
  localparam int LANE_CYCLES = 12;  // of lds_rq_lane.sv

  // --- what is read ---------------------------------------------------------------------------------------
  logic active, steps;
  logic [1:0] operand;  // 3: none, but a tile of the row
  logic [LA-1:0] operand_at, tile_at;
  logic [15:0] x_size, columns, rows;
  logic [LOG_QUEUE:0] under_way;  // read, and not yet taken
  wire reads_tile = active && operand == 2'd3 && !under_way[LOG_QUEUE];
  assign read = reads_tile || (active && operand != 2'd3);
  assign read_at = operand == 2'd3 ? tile_at : operand_at;

  // --- the lanes ------------------------------------------------------------------------------------------
  logic [2:0] reads;  // the operand tile that was read in the cycle before
  logic [LANE_CYCLES:0] valid;  // 0: ACC's data are here
  logic [ACC_BITS-1:0] bias, multiplier, shift;
  logic [INP_BITS-1:0] made;
  for (genvar n = 0; n < LANES; n++) begin : g_lane
    logic [31:0] result;
    lds_rq_lane lane (
        .clk, .is_mul(1'b0), .rounding, .acc(data[32*n+:32]), .bias(bias[32*n+:32]), .multiplier(multiplier[32*n+:32]),
        .shift(shift[32*n+:32]), .zero_point, .low, .high, .result
    );
    assign made[8*n+:8] = result[7:0];
  end

  // --- the queue ------------------------------------------------------------------------------------------
  logic [INP_BITS-1:0] queue[1 << LOG_QUEUE];
  logic [LOG_QUEUE-1:0] write_at, taken_at;
  assign tile = queue[taken_at];
  logic full;
  assign some = write_at != taken_at || full;
  wire put = valid[LANE_CYCLES];

  always_ff @(posedge clk) begin
    reads <= active && operand != 2'd3 ? 3'b001 << operand : 3'b000;
    if (reads[0]) bias <= data;
    if (reads[1]) multiplier <= data;
    if (reads[2]) shift <= data;
    valid <= {valid[LANE_CYCLES-1:0], reads_tile};
    if (put) queue[write_at] <= made;
    if (begins) begin
      active <= insn[STORE_REQUANTIZE_AT];
      steps <= insn[STORE_OPERAND_STEP_AT];
      operand <= 2'd0;
      operand_at <= insn[STORE_OPERANDS_AT+:LA];
      tile_at <= LA'(insn[STORE_SRAM_BASE_AT+:16]);
      x_size <= insn[STORE_X_SIZE_AT+:16];
      columns <= insn[STORE_X_SIZE_AT+:16];
      rows <= insn[STORE_Y_SIZE_AT+:16];
    end else if (active && operand != 2'd3) begin
      operand <= operand + 1'b1;
      operand_at <= operand_at + 1'b1;
    end else if (reads_tile) begin
      tile_at <= tile_at + 1'b1;
      columns <= columns == 16'd1 ? x_size : columns - 1'b1;
      if (columns == 16'd1) begin
        rows <= rows - 1'b1;
        if (rows == 16'd1) active <= 1'b0;
        if (steps) operand <= 2'd0;
      end
    end
    if (reads_tile != take) under_way <= under_way + {{LOG_QUEUE{take}}, 1'b1};
    if (put) write_at <= write_at + 1'b1;
    if (take) taken_at <= taken_at + 1'b1;
    if (put != take) full <= put && write_at + 1'b1 == taken_at;
    if (clear) begin
      active <= 1'b0;
      valid <= '0;
      under_way <= '0;
      write_at <= '0;
      taken_at <= '0;
      full <= 1'b0;
    end
  end
endmodule
