// A bank of INP, and where a STORE can write INP, a second memory for what it wrote: so neither writer ever waits for the other.
//
//   LOAD  --> loaded: tiles, from ---+--> the tile, from where it was written last
//   STORE --> stored: tiles, to   ---+    (from != to: in `stored`)
//
// In:   writes of the load stage, of which those to INP are executed; of the store stage; the tile that compute reads.
// Out:  that tile, in the next cycle.
// Next: lds_inp_ram.sv, lds_macs.sv.
//
// Each writer has one bit for each tile, and makes it equal to the other's (LOAD) or not (STORE): memories of a single bit with one write
// port each, where a bit that both can write would be as many registers. A LOAD writes tiles word by word: they are its own from the first
// one on. No program reads a tile while it is written, or writes it twice at once.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_inp_bank #(
    parameter int LOG_DEPTH = 8
) (
    input logic clk,
    input write_t write,
    input tile_write_t store,
    input logic [LOG_DEPTH-1:0] read_at,
    output logic [INP_BITS-1:0] read_data
);
  logic [INP_BITS-1:0] loaded_tile;
  lds_tile_ram #(.MEMORY(MEMORY_INP), .TILE_BITS(INP_BITS), .LOG_DEPTH(LOG_DEPTH)) loaded (.clk, .write, .read_at, .read_data(loaded_tile));

  if (CAN_STORE_INP) begin : g_stored
    logic [INP_BITS-1:0] stored_tile;
    wire [LOG_DEPTH-1:0] load_at = write.tile[LOG_DEPTH-1:0], store_at = store.tile[LOG_DEPTH-1:0];
    lds_ram #(.WIDTH(INP_BITS), .LOG_DEPTH(LOG_DEPTH)) stored (
        .clk, .write(store.valid), .write_at(store_at), .write_data(store.data), .read(1'b1), .read_at, .read_data(stored_tile)
    );
    logic from[1 << LOG_DEPTH], to[1 << LOG_DEPTH];
    logic is_stored;
    always_ff @(posedge clk) begin
      if (write.valid && write.memory == MEMORY_INP) from[load_at] <= to[load_at];
      if (store.valid) to[store_at] <= !from[store_at];
      is_stored <= from[read_at] != to[read_at];
    end
    assign read_data = is_stored ? stored_tile : loaded_tile;
`ifdef VERILATOR
    initial for (int n = 0; n < (1 << LOG_DEPTH); n++) {from[n], to[n]} = 2'b00;
`endif
  end else begin : g_loaded
    assign read_data = loaded_tile;
  end
endmodule
