// Whether the tiles of a LOAD or STORE lie in the scratchpad, and their bytes in the region.
//
// In:   the instruction in the cycle of its start (it comes late in that cycle, from a memory, so that little is done there), and the
//       one that runs in the cycle after.
// Out:  in the cycle after the start: where in DRAM it begins; one later: what is wrong.
// Next: lds_load_engine.sv, lds_store_stage.sv. The rules are those of hw_sim/exec_memory.cc.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_load_check #(
    parameter bit WRITES = 0
) (
    input logic clk,
    input logic [127:0] head,  // in the cycle of the start
    input logic [127:0] insn,  // the same, in the cycle after it
    input logic begins,  // that cycle after
    input region_t [MAX_REGIONS-1:0] regions,
    output logic [63:0] address,  // in the cycle after the start
    output logic [16:0] width,  // the same: tiles of a row in the scratchpad, with its padding
    output logic [3:0] error,  // from the second cycle after the start on: ERROR_*
    output logic [63:0] error_address
);
  // --- in the cycle of the start ----------------------------------------------------------------------
  wire [15:0] y_size = head[MEMORY_Y_SIZE_AT+:16], x_size = head[MEMORY_X_SIZE_AT+:16], x_stride = head[MEMORY_X_STRIDE_AT+:16];
  wire [2:0] head_memory = WRITES ? MEMORY_OUT : head[MEMORY_MEMORY_ID_AT+:3];
  logic [16:0] height;
  logic [31:0] rows_span;  // tiles of DRAM from the first row to the one past the last
  logic any_rows;
  logic [63:0] offset;
  region_t region;
  always_ff @(posedge clk) begin
    height <= 17'(y_size) + 17'(head[MEMORY_Y_PAD_0_AT+:4]) + 17'(head[MEMORY_Y_PAD_1_AT+:4]);
    width <= 17'(x_size) + 17'(head[MEMORY_X_PAD_0_AT+:4]) + 17'(head[MEMORY_X_PAD_1_AT+:4]);
    rows_span <= 32'(y_size) * 32'(x_stride);
    any_rows <= y_size != 0;
    offset <= 64'(head[MEMORY_DRAM_BASE_AT+:32]) << tile_log2(head_memory);
    region <= regions[head[MEMORY_REGION_AT+:3]];
  end

  // --- in the cycle after -------------------------------------------------------------------------------
  wire [2:0] memory = WRITES ? MEMORY_OUT : insn[MEMORY_MEMORY_ID_AT+:3];
  wire [4:0] tile = tile_log2(memory);
  wire [33:0] area = 34'(height) * 34'(width);  // tiles of the scratchpad
  wire [31:0] reach = rows_span - 32'(insn[MEMORY_X_STRIDE_AT+:16]);
  wire [32:0] tiles = any_rows ? {1'b0, reach} + 33'(insn[MEMORY_X_SIZE_AT+:16]) : 33'd0;
  wire [63:0] size = 64'(tiles) << tile;
  wire [63:0] end_offset = offset + size;
  wire [63:0] base = CAN_REGIONS ? region.base : 64'd0;
  wire [64:0] sum = {1'b0, base} + {1'b0, offset};
  wire [64:0] past = {1'b0, sum[63:0]} + {1'b0, size};
  wire [34:0] last = 35'(insn[MEMORY_SRAM_BASE_AT+:16]) + 35'(area);

  assign address = sum[63:0];
  always_ff @(posedge clk)
    if (begins) begin
      error <= last > 35'(depth_of(memory)) ? ERROR_SRAM_BOUNDS : sum[64] || past[64] ? ERROR_BUS :
               CAN_REGIONS && (end_offset > {1'b0, region.limit[62:0]} || (WRITES && region.limit[63])) ? ERROR_DRAM_BOUNDS : ERROR_NONE;
      error_address <= last > 35'(depth_of(memory)) ? 64'd0 : sum[63:0];
    end

`ifdef FORMAL_LDS_LOAD_CHECK
`include "proofs/lds_load_check.svh"
`endif
endmodule
