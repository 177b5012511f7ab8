// The scratchpad of INP or WGT: written in words of the bus or in whole tiles of padding, read in tiles.
//
// In:   writes of the load stage, of which those to this memory are executed; the tile that compute reads.
// Out:  that tile, in the next cycle.
// Next: lds_macs.sv.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_types_pkg::*;
module lds_tile_ram #(
    parameter logic [2:0] MEMORY = 0,
    parameter int TILE_BITS = 64,
    parameter int LOG_DEPTH = 8
) (
    input logic clk,
    input write_t write,
    input logic [LOG_DEPTH-1:0] read_at,
    output logic [TILE_BITS-1:0] read_data
);
  localparam int WORDS = TILE_BITS / BUS_BITS;

  wire mine = write.valid && write.memory == MEMORY;
  logic [WORDS-1:0] enable;
  always_comb for (int w = 0; w < WORDS; w++) enable[w] = mine && (write.pad || 32'(write.word) == (write.wide ? w / 2 : w));

  wire [BUS_BITS-1:0] word = write.pad ? {BUS_BYTES{write.pad_value}} : write.data;
  wire [BUS_BITS-1:0] odd = write.wide ? write.second : word;
  logic [TILE_BITS-1:0] words;
  always_comb for (int w = 0; w < WORDS; w++) words[w*BUS_BITS+:BUS_BITS] = w % 2 == 1 ? odd : word;
  lds_ram #(.WIDTH(TILE_BITS), .LOG_DEPTH(LOG_DEPTH), .PARTS(WORDS)) memory (
      .clk, .write(enable), .write_at(write.tile[LOG_DEPTH-1:0]), .write_data(words), .read(1'b1), .read_at, .read_data
  );
endmodule
