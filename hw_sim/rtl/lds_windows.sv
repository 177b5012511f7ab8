// What the multipliers take from INP: the same tile for all outputs (GEMM), or for each output its lane of a window (DEPTHWISE).
//
// In:   the tiles of a row, a cycle after `src`; whether the row goes below those that are held.
// Out:  in the next cycle, for the factor of output o and product k, an element of INP.
// Next: lds_macs.sv.
//
// The last row of a window comes from INP, and is kept for the steps behind: two rows of three tiles are held. Taps that the window does not
// have give zeros, and so do weights that are none; the one behind the last row meets the row's first tile in a wide instruction.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_windows (
    input logic clk,
    input logic [127:0] insn,
    input logic is_window,
    input logic row,
    input logic [WINDOW_COLUMNS-1:0][INP_BITS-1:0] tiles,
    output logic [BATCH*BLOCK*BLOCK-1:0][7:0] operands  // [(b * BLOCK + o) * BLOCK + k]
);
  logic row_1;  // `tiles` are those of a row
  logic [1:0] rows, columns;
  logic wide;
  logic [WINDOW_ROWS-1:0][WINDOW_COLUMNS-1:0] has_tap;
  always_ff @(posedge clk) begin
    row_1 <= row;
    rows <= insn[DEPTHWISE_ROWS_AT+:2];
    columns <= insn[DEPTHWISE_COLUMNS_AT+:2];
    wide <= insn[DEPTHWISE_WIDE_AT];
    for (int r = 0; r < WINDOW_ROWS; r++) for (int c = 0; c < WINDOW_COLUMNS; c++) has_tap[r][c] <= r + 32'(rows) >= WINDOW_ROWS && c < 32'(columns);
  end

  // The rows of the window, the last one being new.
  logic [WINDOW_ROWS-1:0][WINDOW_COLUMNS-1:0][INP_BITS-1:0] window;
  assign window[WINDOW_ROWS-1] = tiles;
  if (WINDOW_ROWS > 1) begin : g_held
    logic [WINDOW_ROWS-2:0][WINDOW_COLUMNS-1:0][INP_BITS-1:0] held;
    always_ff @(posedge clk) if (row_1) held <= window[WINDOW_ROWS-1:1];
    assign window[WINDOW_ROWS-2:0] = held;
  end

  for (genvar b = 0; b < BATCH; b++) begin : g_batch
    for (genvar o = 0; o < BLOCK; o++) begin : g_out
      for (genvar k = 0; k < BLOCK; k++) begin : g_product
        localparam int R = k / WINDOW_PITCH, C = k % WINDOW_PITCH, AT = (b * BLOCK + o) * BLOCK + k;
        wire [7:0] dense = tiles[0][8*(b*BLOCK+k)+:8];
        if (R < WINDOW_ROWS && C < WINDOW_COLUMNS) begin : g_tap
          wire [7:0] own = window[R][C][8*(b*BLOCK+o)+:8];
          always_ff @(posedge clk) operands[AT] <= !is_window ? dense : has_tap[R][C] ? own : 8'd0;
        end else if (k == WIDE_PRODUCT) begin : g_wide
          wire [7:0] own = tiles[0][8*(b*BLOCK+o)+:8];
          always_ff @(posedge clk) operands[AT] <= !is_window ? dense : wide ? own : 8'd0;
        end else begin : g_none
          always_ff @(posedge clk) operands[AT] <= is_window ? 8'd0 : dense;
        end
      end
    end
  end
endmodule
