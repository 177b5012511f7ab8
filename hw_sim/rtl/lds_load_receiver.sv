// Receives what a LOAD has requested: the received words, and padding in between. Of WGT_4BIT a word becomes two.
//
// In:   the instruction; `begins` in the cycle after its start, `checked` in the next; its beats. With several LOADs on their way
//       (lds_load_engine.sv): whether it is the oldest of them, and whether the other ones write in this cycle.
// Out:  writes to the scratchpads, three cycles after the beat; `done` in the last cycle.
// Next: lds_load_engine.sv.
//
// Padding waits until the LOAD is the oldest: what older ones receive is written before.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_load_receiver #(
    parameter logic [2:0] PADS = MEMORY_INP,
    parameter bit GROUPS = 0,  // of weights of 4 bits
    parameter bit PLANES = 0  // weights in bit planes
) (
    input logic clk,
    input logic clear,
    input logic [127:0] insn,
    input logic begins,
    input logic checked,
    input logic [15:0] first_tile,
    input logic [16:0] width,
    input logic fits_nothing,  // in the cycle of `checked`: a LOAD of nothing is valid
    input logic refused,
    input logic [7:0] pad_value,
    input logic oldest,
    input logic occupied,  // the write port, by another LOAD
    input logic beat,
    input logic [BUS_BITS-1:0] beat_data,
    input unpacked_t unpacked,  // in the cycle after a beat of WGT_4BIT or WGT_PLANES
    output logic in_groups,  // its beats are of the former
    output logic codes,  // of the latter
    output logic last_beat,
    output logic occupies,  // the write port, in the next cycle
    output logic padded,  // no padding is left
    output write_t write,
    output logic [15:0] bytes,  // bytes in the beat of this cycle
    output logic done
);
  localparam int SKEW_BITS = LOG_UOPS > 0 ? LOG_UOPS : 1;

  logic active;
  wire [2:0] memory = insn[MEMORY_MEMORY_ID_AT+:3];
  wire [4:0] tile_bytes_log2 = tile_log2(memory);
  wire [15:0] y_size = insn[MEMORY_Y_SIZE_AT+:16], x_size = insn[MEMORY_X_SIZE_AT+:16], x_stride = insn[MEMORY_X_STRIDE_AT+:16];
  wire is_uop = memory == MEMORY_UOP;
  assign in_groups = GROUPS && memory == MEMORY_WGT_4BIT;
  assign codes = PLANES && memory == MEMORY_WGT_PLANES;
  wire [7:0] value = memory == PADS ? pad_value : 8'd0;

  // --- what comes -----------------------------------------------------------------------------------------
  logic [15:0] rows_left, x_left, tile, row_tiles, next_row;  // of the scratchpad: tiles of a row, and where the next one begins
  logic [WORD_INDEX_BITS-1:0] word, last_word;
  logic [SKEW_BITS-1:0] skew, row_skew;  // the first micro-op of a beat that counts; of the row's first beat
  wire [4:0] uops_to_end = 5'(UOPS) - 5'(skew);
  wire row_goes_on = 16'(uops_to_end) < x_left;  // after this beat of micro-ops
  wire [4:0] uops_here = row_goes_on ? uops_to_end : x_left[4:0];
  wire takes = beat && active;
  // A group: its multipliers and minima, then the numbers of its tiles.
  logic heads;
  logic [2:0] tiles_left;  // of the group, behind this one
  wire [WORD_INDEX_BITS-1:0] last = !in_groups ? last_word : heads ? WORD_INDEX_BITS'(HEAD_WORDS - 1) : WORD_INDEX_BITS'(NUMBER_WORDS - 1);
  wire part_ends = is_uop || codes || word == last;
  wire tile_ends = part_ends && !(in_groups && heads);
  wire group_ends = !in_groups || tiles_left == 0;
  wire [15:0] tiles_here = is_uop ? 16'(uops_here) : 16'd1;
  wire row_ends = is_uop ? !row_goes_on : tile_ends && group_ends && x_left == 16'd1;
  wire [SKEW_BITS-1:0] next_skew = UOPS > 1 ? row_skew + SKEW_BITS'(x_stride) : '0;
  assign last_beat = takes && row_ends && (codes || rows_left == 16'd1);
  assign bytes = !takes ? 16'd0 : is_uop ? 16'(uops_here) << 2 : 16'(BUS_BYTES);

  write_t first, second, third;
  logic [2:0] ended;  // the last beat, one to three cycles ago and more

  always_ff @(posedge clk) begin
    first <= '{
        valid: takes && !(in_groups && heads), pad: 1'b0, wide: in_groups || codes, memory: in_groups || codes ? MEMORY_WGT : memory, tile: tile,
        word: is_uop ? WORD_INDEX_BITS'(skew) : word, count: uops_here, pad_value: value, data: beat_data, second: '0
    };
    second <= first;
    if ((GROUPS || PLANES) && first.wide) {second.second, second.data} <= unpacked.weights;
    if (PLANES && codes) begin  // rows_left counts tiles; rows behind them are not written
      second.valid <= first.valid && unpacked.complete && rows_left != 0;
      second.tile <= tile;
      second.word <= unpacked.row;
      if (first.valid && unpacked.complete && unpacked.tile_ends) begin
        tile <= tile + 16'd1;
        rows_left <= rows_left - 16'(rows_left != 0);
      end
    end
    ended <= {ended[1] | ended[2], ended[0] | ended[1], last_beat};
    if (takes) begin
      word <= part_ends ? '0 : word + 1'b1;
      if (part_ends) heads <= !heads && group_ends;
      if (tile_ends && codes) x_left <= x_left - 16'd1;
      else if (tile_ends) begin
        tile <= row_ends ? next_row : tile + tiles_here;
        if (group_ends) x_left <= row_ends ? x_size : x_left - tiles_here;
        tiles_left <= group_ends ? 3'((1 << LOG_GROUP_TILES) - 1) : tiles_left - 3'd1;
        skew <= row_ends ? next_skew : '0;
      end
      if (row_ends && !codes) begin
        rows_left <= rows_left - 16'd1;
        row_skew <= next_skew;
        next_row <= next_row + row_tiles;
      end
    end
    if (begins) begin
      rows_left <= y_size;
      row_tiles <= in_groups ? 16'(width) << LOG_GROUP_TILES : width[15:0];
      heads <= 1'b1;
      tiles_left <= 3'((1 << LOG_GROUP_TILES) - 1);
      x_left <= x_size;
      word <= '0;
      last_word <= WORD_INDEX_BITS'((32'd1 << tile_bytes_log2) / BUS_BYTES - 1);
      tile <= first_tile;
      skew <= UOPS > 1 ? SKEW_BITS'(insn[MEMORY_DRAM_BASE_AT+:32]) : '0;
      row_skew <= UOPS > 1 ? SKEW_BITS'(insn[MEMORY_DRAM_BASE_AT+:32]) : '0;
      ended <= y_size == 0 ? 3'b111 : 3'b000;
    end
    if (checked) next_row <= tile + row_tiles;  // no beat has arrived before
    if (clear) first.valid <= 1'b0;
  end

  // --- padding ----------------------------------------------------------------------------------------------
  logic pads, ready;
  logic waits;  // for older LOADs
  logic [15:0] pad_tile;
  assign occupies = second.valid;
  lds_padding padding (
      .clk, .clear, .insn, .begins((begins || waits) && oldest), .taken(second.valid || occupied || refused), .valid(pads), .tile(pad_tile), .ready
  );
  assign padded = ready && !waits;
  wire pads_any = {insn[MEMORY_Y_PAD_0_AT+:4], insn[MEMORY_Y_PAD_1_AT+:4], insn[MEMORY_X_PAD_0_AT+:4], insn[MEMORY_X_PAD_1_AT+:4]} != 0;
  always_ff @(posedge clk) waits <= ((begins && pads_any) || waits) && !oldest && !clear;
  always_ff @(posedge clk) begin
    third <= second;
    if (!second.valid) begin
      third.valid <= pads;
      third.pad <= 1'b1;
      third.wide <= 1'b0;
      third.memory <= memory;
      third.tile <= pad_tile;
      third.pad_value <= value;
    end
    if (clear) third.valid <= 1'b0;
  end
  always_comb begin
    write = third;
    write.valid = third.valid && !refused;
  end

  // In the cycle of the check's result only a LOAD of nothing can be done.
  assign done = active && padded && (is_uop ? ended[1] : ended[2]) && (checked ? fits_nothing : !refused);
  always_ff @(posedge clk) begin
    if (begins) active <= 1'b1;
    else if (done) active <= 1'b0;
    if (clear) active <= 1'b0;
  end
endmodule
