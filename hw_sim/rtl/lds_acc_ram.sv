// The accumulators, and OUT: a copy of their lanes' low bytes, which the store stage reads; of whole lanes where it requantizes or stores them.
//
// In:   the tile that compute writes; words of LOADs of ACC or ACC_8BIT; addresses.
// Out:  tiles, in the next cycle: one or two of ACC, one of OUT.
// Next: lds_execute.sv, lds_store_stage.sv.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_acc_ram #(
    parameter int READ_PORTS = 2
) (
    input logic clk,
    input write_t load,
    input logic write,
    input logic [LA-1:0] write_at,
    input logic [ACC_BITS-1:0] write_data,
    input logic [LA-1:0] read_a,
    output logic [ACC_BITS-1:0] data_a,
    input logic [LA-1:0] read_b,  // with one port: not read
    output logic [ACC_BITS-1:0] data_b,
    input logic out_read,
    input logic [LA-1:0] out_tile,
    output logic [OUT_BITS-1:0] out_data
);
  localparam int WORD_LANES = BUS_BITS / 32;
  localparam int NARROW_WORDS = BUS_BYTES / WORD_LANES;  // words of ACC that a word of ACC_8BIT fills

  wire wide = load.memory == MEMORY_ACC, narrow = load.memory == MEMORY_ACC_8BIT;
  wire loads = load.valid && (wide || narrow);

  logic [ACC_WORDS-1:0] enable;
  logic [ACC_BITS-1:0] data;
  always_comb begin
    for (int w = 0; w < ACC_WORDS; w++)
      enable[w] = write || (loads && (load.pad || (wide ? 32'(load.word) == w : 32'(load.word) == w / NARROW_WORDS)));
    for (int n = 0; n < LANES; n++) begin
      if (write) data[32*n+:32] = write_data[32*n+:32];
      else if (load.pad) data[32*n+:32] = wide ? 32'd0 : 32'($signed(load.pad_value));
      else if (wide) data[32*n+:32] = load.data[32*(n%WORD_LANES)+:32];
      else data[32*n+:32] = 32'($signed(load.data[8*(n%BUS_BYTES)+:8]));
    end
  end
  wire [LA-1:0] at = write ? write_at : load.tile[LA-1:0];

  lds_ram #(.WIDTH(ACC_BITS), .LOG_DEPTH(LA), .PARTS(ACC_WORDS)) first (
      .clk, .write(enable), .write_at(at), .write_data(data), .read(1'b1), .read_at(read_a), .read_data(data_a)
  );
  if (READ_PORTS == 2) begin : g_second
    lds_ram #(.WIDTH(ACC_BITS), .LOG_DEPTH(LA), .PARTS(ACC_WORDS)) second (
        .clk, .write(enable), .write_at(at), .write_data(data), .read(1'b1), .read_at(read_b), .read_data(data_b)
    );
  end else begin : g_shared
    assign data_b = data_a;
  end

  logic [OUT_BITS-1:0] kept;
  if (OUT_BITS == ACC_BITS) begin : g_whole
    assign kept = data;
  end else begin : g_low
    always_comb for (int n = 0; n < LANES; n++) kept[8*n+:8] = data[32*n+:8];
  end
  lds_ram #(.WIDTH(OUT_BITS), .LOG_DEPTH(LA), .PARTS(ACC_WORDS)) out (
      .clk, .write(enable), .write_at(at), .write_data(kept), .read(out_read), .read_at(out_tile), .read_data(out_data)
  );
endmodule
