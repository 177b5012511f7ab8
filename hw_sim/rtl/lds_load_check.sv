// Whether the tiles of a LOAD or STORE lie in the scratchpad, and their bytes in the region, or the tiles of a STORE to INP in INP.
//
// In:   the instruction in the cycle of its start (it arrives late in that cycle, from a memory, so that little is computed then), and
//       the running instruction in the cycle after.
// Out:  in the cycle after the start: its first address in DRAM; from one cycle later on: the error.
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
    output logic [16:0] width,  // the same: tiles of a row in the scratchpad, with its padding; of WGT_PLANES 1
    output logic fits_nothing,  // in the second cycle after the start: a LOAD of no tile is valid
    output logic fine,  // from the second cycle after the start on: there is no error
    output logic [3:0] error,  // from the second cycle after the start on: ERROR_*
    output logic [63:0] error_address
);
  localparam int TILE_LOG2_MAX = 2 * LOG_BLOCK > LOG_LANES + 2 ? 2 * LOG_BLOCK : LOG_LANES + 2;
  localparam bit GROUPS = CAN_WEIGHTS4 && !WRITES;
  localparam int SIZE_BITS = 33 + TILE_LOG2_MAX + (GROUPS ? 3 : 0);
  localparam int LAST_BITS = 35 + (GROUPS ? LOG_GROUP_TILES : 0);

  // Whose tiles a LOAD or STORE counts in DRAM, and in the scratchpad.
  function automatic logic [2:0] space_of(input logic [2:0] id);
    if (!WRITES) space_of = id;
    else space_of = CAN_STORE_ACC && id == MEMORY_ACC ? MEMORY_ACC : MEMORY_OUT;
  endfunction

  // --- in the cycle of the start ----------------------------------------------------------------------
  wire [15:0] y_size = head[MEMORY_Y_SIZE_AT+:16], x_size = head[MEMORY_X_SIZE_AT+:16], x_stride = head[MEMORY_X_STRIDE_AT+:16];
  wire [2:0] head_memory = space_of(head[MEMORY_MEMORY_ID_AT+:3]);
  logic [16:0] height;
  logic [31:0] rows_span;  // tiles of DRAM from the first row to the one past the last
  logic any_rows;
  logic [SIZE_BITS-1:0] offset;
  region_t region;
  always_ff @(posedge clk) begin
    height <= 17'(y_size) + (WRITES ? 17'd0 : 17'(head[MEMORY_Y_PAD_0_AT+:4]) + 17'(head[MEMORY_Y_PAD_1_AT+:4]));
    width <= CAN_WEIGHT_CODE && head_memory == MEMORY_WGT_PLANES ? 17'd1 : 17'(x_size) + (WRITES ? 17'd0 : 17'(head[MEMORY_X_PAD_0_AT+:4]) + 17'(head[MEMORY_X_PAD_1_AT+:4]));
    rows_span <= 32'(y_size) * 32'(x_stride);
    any_rows <= y_size != 0;
    offset <= SIZE_BITS'(head[MEMORY_DRAM_BASE_AT+:32]) << tile_log2(head_memory);
    region <= regions[head[MEMORY_REGION_AT+:3]];
  end

  // --- in the cycle after -------------------------------------------------------------------------------
  wire [2:0] memory = space_of(insn[MEMORY_MEMORY_ID_AT+:3]);
  wire [4:0] tile = tile_log2(memory);
  wire in_groups = GROUPS && memory == MEMORY_WGT_4BIT;
  wire [33:0] area = 34'(height) * 34'(width);  // tiles of the scratchpad, or groups
  wire [31:0] reach = rows_span - 32'(insn[MEMORY_X_STRIDE_AT+:16]);
  wire [32:0] tiles = any_rows ? {1'b0, reach} + 33'(insn[MEMORY_X_SIZE_AT+:16]) : 33'd0;
  wire [63:0] base = CAN_REGIONS ? region.base : 64'd0;
  wire [64:0] sum = {1'b0, base} + 65'(offset);

  assign address = sum[63:0];
  logic to_inp;  // a STORE
  logic [34:0] inp_last;  // past the last tile that a STORE writes to INP
  logic [LAST_BITS-1:0] last;  // past the last tile of the scratchpad
  logic [SIZE_BITS-1:0] size;  // bytes from the first row to the end of the last
  logic signed [64:0] room;  // bytes of the region from the first row on
  logic [64:0] first;
  logic [16:0] depth;
  logic refuses;  // stores
  logic base_over;
  always_ff @(posedge clk)
    if (begins) begin
      last <= LAST_BITS'(insn[MEMORY_SRAM_BASE_AT+:16]) + (in_groups ? LAST_BITS'(area) << LOG_GROUP_TILES : LAST_BITS'(area));
      to_inp <= WRITES && CAN_STORE_INP && insn[MEMORY_MEMORY_ID_AT+:3] == MEMORY_INP;
      inp_last <= 35'(insn[MEMORY_DRAM_BASE_AT+:32]) + 35'(tiles);
      size <= (in_groups ? SIZE_BITS'(tiles) * SIZE_BITS'(GROUP_BASES) : SIZE_BITS'(tiles)) << tile;
      room <= $signed({2'b00, region.limit[62:0]}) - 65'(offset);
      first <= sum;
      depth <= depth_of(memory);
      refuses <= region.limit[63];
      base_over <= 17'(insn[MEMORY_SRAM_BASE_AT+:16]) > depth_of(memory);
    end

  // --- from the second cycle after on: no sum behind another ----------------------------------------------
  wire [64:0] past = {1'b0, first[63:0]} + 65'(size);
  wire sram_over = last > LAST_BITS'(depth);
  wire dram_over = CAN_REGIONS && (room < $signed(65'(size)) || (WRITES && refuses));
  wire inp_over = to_inp && inp_last > 35'(1 << LI);
  assign fine = !((!to_inp && (dram_over || first[64] || past[64])) || sram_over || inp_over);
  always_comb begin
    error = ERROR_NONE;
    if (dram_over && !to_inp) error = ERROR_DRAM_BOUNDS;
    if ((first[64] || past[64]) && !to_inp) error = ERROR_BUS;
    if (sram_over || inp_over) error = ERROR_SRAM_BOUNDS;
  end
  assign fits_nothing = !base_over && !first[64] && !(CAN_REGIONS && room[64]);
  assign error_address = sram_over || to_inp ? 64'd0 : first[63:0];
`ifdef FORMAL_LDS_LOAD_CHECK
`include "proofs/lds_load_check.svh"
`endif
endmodule
