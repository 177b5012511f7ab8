// A memory with one write port and one read port. The result of a read in the cycle of a write to the same word is undefined.
//
// In:   a word, and which of its equal parts are written; the address that is read in this cycle.
// Out:  the word read in the cycle before; it is kept while nothing is read.
// Next: lds_tile_ram.sv, lds_acc_ram.sv, lds_uop_ram.sv, lds_stage_queue.sv, lds_fetch.sv.
// SPDX-License-Identifier: Apache-2.0
module lds_ram #(
    parameter int WIDTH = 64,
    parameter int LOG_DEPTH = 8,
    parameter int PARTS = 1
) (
    input logic clk,
    input logic [PARTS-1:0] write,
    input logic [LOG_DEPTH-1:0] write_at,
    input logic [WIDTH-1:0] write_data,
    input logic read,
    input logic [LOG_DEPTH-1:0] read_at,
    output logic [WIDTH-1:0] read_data
);
  localparam int PART = WIDTH / PARTS;

  (* ram_style = "block" *) logic [WIDTH-1:0] words[1 << LOG_DEPTH];

  always_ff @(posedge clk) begin
    for (int p = 0; p < PARTS; p++) if (write[p]) words[write_at][p*PART+:PART] <= write_data[p*PART+:PART];
    if (read) read_data <= words[read_at];
`ifdef VERILATOR
    if (read && write != 0 && write_at == read_at) read_data <= ~words[read_at];  // so that tests find a use of it
`endif
  end

`ifdef VERILATOR
  initial for (int n = 0; n < (1 << LOG_DEPTH); n++) words[n] = '0;
`endif
endmodule
