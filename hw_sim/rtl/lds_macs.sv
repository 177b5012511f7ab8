// The multipliers: an INP tile by a WGT tile, a step a cycle.
//
//   sum[b][o] = inp[b][0] * wgt[o][0] + inp[b][1] * wgt[o][1] + ...
//
// In:   writes of LOADs; the tiles of a step.
// Out:  its sums, four cycles later.
// Next: lds_execute.sv adds them to the accumulators.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_macs (
    input logic clk,
    input write_t write,
    input logic [LI-1:0] src,
    input logic [LW-1:0] wgt,
    output logic [ACC_BITS-1:0] sums
);
  logic [INP_BITS-1:0] inp_read, inp;
  logic [WGT_BITS-1:0] wgt_read, weights;

  lds_tile_ram #(.MEMORY(MEMORY_INP), .TILE_BITS(INP_BITS), .LOG_DEPTH(LI)) inp_ram (.clk, .write, .read_at(src), .read_data(inp_read));
  lds_tile_ram #(.MEMORY(MEMORY_WGT), .TILE_BITS(WGT_BITS), .LOG_DEPTH(LW)) wgt_ram (.clk, .write, .read_at(wgt), .read_data(wgt_read));
  always_ff @(posedge clk) begin
    inp <= inp_read;
    weights <= wgt_read;
  end

  for (genvar b = 0; b < BATCH; b++) begin : g_batch
    for (genvar o = 0; o < BLOCK; o++) begin : g_out
      logic signed [15:0] products[BLOCK];
      logic signed [31:0] sum;
      for (genvar k = 0; k < BLOCK; k++) begin : g_in
        wire signed [7:0] x = inp[8*(b*BLOCK+k)+:8];
        wire signed [7:0] w = weights[8*(o*BLOCK+k)+:8];
        always_ff @(posedge clk) products[k] <= x * w;
      end
      always_comb begin
        sum = 32'sd0;
        for (int k = 0; k < BLOCK; k++) sum = sum + 32'(products[k]);
      end
      always_ff @(posedge clk) sums[32*(b*BLOCK+o)+:32] <= sum;
    end
  end
endmodule
