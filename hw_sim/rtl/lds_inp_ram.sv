// INP in four banks, for DEPTHWISE: tile t is in bank t mod 4, so that three neighbours are read side by side.
//
// In:   writes of the load and the store stage; the first tile that is read.
// Out:  in the next cycle that tile and the two after it.
// Next: lds_macs.sv.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_inp_ram (
    input logic clk,
    input write_t write,
    input tile_write_t store,
    input logic [LI-1:0] read_at,
    output logic [WINDOW_COLUMNS-1:0][INP_BITS-1:0] tiles
);
  localparam int BANKS = 4;

  logic [BANKS-1:0][INP_BITS-1:0] bank;
  logic [1:0] first;
  always_ff @(posedge clk) first <= read_at[1:0];
  // Banks below the first one hold tiles of the next group of four.
  for (genvar b = 0; b < BANKS; b++) begin : g_bank
    write_t own;
    tile_write_t own_store;
    always_comb begin
      own_store = store;
      own_store.valid = store.valid && 32'(store.tile[1:0]) == b;
      own_store.tile = 16'(store.tile[LI-1:2]);
      own = write;
      own.valid = write.valid && 32'(write.tile[1:0]) == b;
      own.tile = 16'(write.tile[LI-1:2]);
    end
    wire [LI-3:0] group = read_at[LI-1:2] + (32'(read_at[1:0]) > b ? (LI - 2)'(1) : '0);
    lds_inp_bank #(.LOG_DEPTH(LI - 2)) ram (.clk, .write(own), .store(own_store), .read_at(group), .read_data(bank[b]));
  end
  for (genvar c = 0; c < WINDOW_COLUMNS; c++) begin : g_column
    wire [1:0] from = first + 2'(c);
    assign tiles[c] = bank[from];
  end
endmodule
