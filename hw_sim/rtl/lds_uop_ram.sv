// The micro-ops: written as many at a time as a word of the bus holds, read one by one.
//
// In:   writes of the compute stage's LOADs; the micro-op that is read.
// Out:  that micro-op, in the next cycle.
// Next: lds_loops.sv.
//
// Micro-op t is in bank t mod UOPS, so that a word may begin at any of them.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_uop_ram (
    input logic clk,
    input write_t write,
    input logic read,
    input logic [UOP_INDEX_BITS-1:0] read_at,
    output logic [31:0] read_data
);
  localparam int LOG_ROWS = UOP_INDEX_BITS - LOG_UOPS;

  wire mine = write.valid && write.memory == MEMORY_UOP;
  wire [UOPS-1:0][31:0] from = write.data;
  logic [UOPS-1:0][31:0] read_banks;

  localparam int PLACE_BITS = LOG_UOPS > 0 ? LOG_UOPS : 1;
  for (genvar b = 0; b < UOPS; b++) begin : g_bank
    // The micro-op of this bank among those in the word, counted from the first one that is written.
    wire [15:0] ahead = UOPS > 1 ? (16'(b) - write.tile) & 16'(UOPS - 1) : 16'd0;
    wire [15:0] tile = write.tile + ahead;
    wire [15:0] place = 16'(write.word) + ahead;  // in the word
    wire [31:0] word = UOPS > 1 ? from[PLACE_BITS'(place)] : from[0];
    wire enable = mine && (write.pad ? ahead == 0 : ahead < 16'(write.count));
    lds_ram #(.WIDTH(32), .LOG_DEPTH(LOG_ROWS)) memory (
        .clk, .write(enable), .write_at(LOG_ROWS'(tile >> LOG_UOPS)), .write_data(write.pad ? 32'd0 : word), .read,
        .read_at(LOG_ROWS'(read_at >> LOG_UOPS)), .read_data(read_banks[b])
    );
  end

  logic [PLACE_BITS-1:0] bank;
  always_ff @(posedge clk) if (read) bank <= UOPS > 1 ? PLACE_BITS'(read_at) : '0;
  assign read_data = read_banks[bank];
endmodule
