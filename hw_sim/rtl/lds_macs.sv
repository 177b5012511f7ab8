// The multipliers: an INP tile, or the lanes of a window of such (lds_windows.sv), times a WGT tile, one step a cycle.
//
//   sum[b][o] = inp[b][0] * wgt[o][0] + inp[b][1] * wgt[o][1] + ...
//
// With two PRODUCTS_PER_MULTIPLIER the weights of two outputs, 16 bits apart, form a factor of 25 bits, the width of Xilinx's DSP blocks:
//
//   inp * (wgt[o+1] * 2^16 + wgt[o]): the bits below 2^16 are one product, those above the other, less one if the first is negative.
//
// In:   writes of LOADs, and of STOREs to INP; the tiles of a step.
// Out:  its sums, four cycles later.
// Next: lds_execute.sv adds them to the accumulators.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_macs (
    input logic clk,
    input write_t write,
    input tile_write_t store,
    input logic [127:0] insn,
    input logic is_window,
    input logic row,  // src begins a row of a window
    input logic [LI-1:0] src,
    input logic [LW-1:0] wgt,
    output logic [ACC_BITS-1:0] sums
);
  logic [WGT_BITS-1:0] wgt_read;
  logic [BATCH*BLOCK*BLOCK-1:0][7:0] inp;  // what output o takes for product k: [(b * BLOCK + o) * BLOCK + k]
  localparam int FACTOR_BITS = PRODUCTS_PER_MULTIPLIER == 2 ? 25 : 8, FACTORS = BLOCK / PRODUCTS_PER_MULTIPLIER;
  logic [FACTORS*BLOCK-1:0][FACTOR_BITS-1:0] factors;  // of the products p, p+1 ... in the block's row k: [p * BLOCK + k]

  if (CAN_DEPTHWISE) begin : g_windows
    logic [WINDOW_COLUMNS-1:0][INP_BITS-1:0] tiles;
    lds_inp_ram inp_ram (.clk, .write, .store, .read_at(src), .tiles);
    lds_windows windows (.clk, .insn, .is_window, .row, .tiles, .operands(inp));
  end else begin : g_tile
    logic [INP_BITS-1:0] inp_read, tile;
    lds_inp_bank #(.LOG_DEPTH(LI)) inp_ram (.clk, .write, .store, .read_at(src), .read_data(inp_read));
    always_ff @(posedge clk) tile <= inp_read;
    always_comb for (int n = 0; n < BATCH * BLOCK * BLOCK; n++) inp[n] = tile[8*(n/(BLOCK*BLOCK)*BLOCK+n%BLOCK)+:8];
  end
  lds_tile_ram #(.MEMORY(MEMORY_WGT), .TILE_BITS(WGT_BITS), .LOG_DEPTH(LW)) wgt_ram (.clk, .write, .read_at(wgt), .read_data(wgt_read));
  for (genvar n = 0; n < FACTORS * BLOCK; n++) begin : g_factor
    localparam int FIRST = 8 * (n / BLOCK * PRODUCTS_PER_MULTIPLIER * BLOCK + n % BLOCK);
    if (PRODUCTS_PER_MULTIPLIER == 2) begin : g_two
      wire [7:0] low = wgt_read[FIRST+:8], high = wgt_read[FIRST+8*BLOCK+:8];
      always_ff @(posedge clk) factors[n] <= {{high[7], high} - {8'd0, low[7]}, {8{low[7]}}, low};
    end else begin : g_one
      always_ff @(posedge clk) factors[n] <= wgt_read[FIRST+:8];
    end
  end

  for (genvar b = 0; b < BATCH; b++) begin : g_batch
    for (genvar p = 0; p < FACTORS; p++) begin : g_out
      logic signed [FACTOR_BITS+7:0] products[BLOCK];
      for (genvar k = 0; k < BLOCK; k++) begin : g_in
        wire signed [7:0] x = inp[(b*BLOCK+p*PRODUCTS_PER_MULTIPLIER)*BLOCK+k];
        wire signed [FACTOR_BITS-1:0] w = factors[p*BLOCK+k];
        always_ff @(posedge clk) products[k] <= x * w;
      end
      for (genvar h = 0; h < PRODUCTS_PER_MULTIPLIER; h++) begin : g_half
        logic signed [31:0] sum;
        always_comb begin
          sum = 32'sd0;
          for (int k = 0; k < BLOCK; k++)
            if (CAN_DEPTHWISE && k == WIDE_PRODUCT && is_window)
              sum = sum + 32'($signed(products[k][15:0])) * WIDE_FACTOR;  // a product of zero, unless the instruction is wide
            else sum = sum + 32'($signed(products[k][16*h+:16])) + (h == 1 ? {31'd0, products[k][15]} : 32'd0);
        end
        always_ff @(posedge clk) sums[32*(b*BLOCK+p*PRODUCTS_PER_MULTIPLIER+h)+:32] <= sum;
      end
    end
  end
endmodule
