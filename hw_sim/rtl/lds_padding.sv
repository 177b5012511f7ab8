// The tiles of padding of a LOAD, one a cycle, in cycles in which no word from DRAM occupies the scratchpad's write port.
//
// In:   the instruction, in the cycle after its start (`begins`); whether the port is occupied in this cycle.
// Out:  the tiles, from the next cycle on: rows above, the sides of each row, rows below (a row without sides takes one
//       cycle); `ready` when all are written.
// Next: lds_load_engine.sv.
// SPDX-License-Identifier: Apache-2.0
import lds_isa_pkg::*;
module lds_padding (
    input logic clk,
    input logic clear,
    input logic [127:0] insn,
    input logic begins,
    input logic taken,
    output logic valid,
    output logic [15:0] tile,
    output logic ready
);
  wire [15:0] y_size = insn[MEMORY_Y_SIZE_AT+:16], x_size = insn[MEMORY_X_SIZE_AT+:16];
  wire [3:0] above = insn[MEMORY_Y_PAD_0_AT+:4], below = insn[MEMORY_Y_PAD_1_AT+:4];
  wire [3:0] left = insn[MEMORY_X_PAD_0_AT+:4], right = insn[MEMORY_X_PAD_1_AT+:4];
  wire [4:0] sides = 5'(left) + 5'(right);
  wire has_sides = {left, right} != 0;
  logic [16:0] last_column;  // of a whole row
  logic [4:0] row_gap;  // the tile of a row after which the next row begins
  logic [3:0] left_gap;  // the same, of those on its left

  typedef enum logic [2:0] {NONE, ABOVE, SIDES, STEP, BELOW} state_t;
  state_t state;
  logic [15:0] rows;  // rows that are left in this part
  logic [16:0] column;

  // The part that follows the rows above, and the one that follows the rows themselves.
  wire state_t after_above = y_size != 0 && has_sides ? SIDES : y_size != 0 && below != 0 ? STEP : below != 0 ? BELOW : NONE;
  wire state_t after_rows = below != 0 ? BELOW : NONE;
  // Where rows begin with data, the first tile of the sides follows the data.
  wire first_skips = y_size != 0 && left == 0 && right != 0;
  logic skips;
  logic [15:0] jump;  // over a row's data, and on to the next tile
  wire jumps = left != 0 ? column[4:0] == 5'(left_gap) : column[4:0] == row_gap && rows != 16'd1;
  wire writes = state == ABOVE || state == SIDES || state == BELOW;

  // In the sides a column is below 32. The end of a whole row is known a cycle ahead.
  logic row_ends;
  wire sides_end = column[4:0] == row_gap;
  wire [16:0] next_column = begins || (state == SIDES ? sides_end : row_ends) ? 17'd0 : column + 17'd1;
  wire [15:0] step = (state == ABOVE && row_ends && rows == 16'd1 && skips) || (state == SIDES && jumps) ? jump : state == STEP ? x_size : 16'd1;

  assign valid = writes && !taken;
  assign ready = state == NONE;

  always_ff @(posedge clk) begin
    if (begins || valid) begin
      column <= next_column;
      row_ends <= begins ? x_size == 16'd1 && !has_sides : next_column == last_column;
    end
    if (state == STEP || !taken) tile <= tile + step;  // without a write it is not read
    case (state)
      ABOVE, BELOW:
      if (!taken) begin
        if (row_ends) begin
          rows <= rows - 16'd1;
          if (rows == 16'd1) begin
            state <= state == BELOW ? NONE : after_above;
            rows <= state == ABOVE && after_above != BELOW ? y_size : 16'(below);
          end
        end
      end
      SIDES:
      if (!taken) begin
        if (sides_end) begin
          rows <= rows - 16'd1;
          if (rows == 16'd1) begin
            state <= after_rows;
            rows <= 16'(below);
          end
        end
      end
      STEP: begin
        rows <= rows - 16'd1;
        if (rows == 16'd1) begin
          state <= BELOW;
          rows <= 16'(below);
        end
      end
      default: ;
    endcase
    if (begins) begin
      last_column <= 17'(x_size) + 17'(sides) - 17'd1;
      row_gap <= sides - 5'd1;
      left_gap <= left - 4'd1;
      tile <= insn[MEMORY_SRAM_BASE_AT+:16] + (above == 0 && first_skips ? x_size : 16'd0);
      skips <= first_skips;
      jump <= x_size + 16'd1;
      if (above != 0) begin
        state <= ABOVE;
        rows <= 16'(above);
      end else begin
        state <= after_above;
        rows <= after_above == BELOW ? 16'(below) : y_size;
      end
    end
    if (clear) state <= NONE;
  end
endmodule
