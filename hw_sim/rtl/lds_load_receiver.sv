// Receives what a LOAD has requested: the received words, and padding in between.
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
    parameter logic [2:0] PADS = MEMORY_INP
) (
    input logic clk,
    input logic clear,
    input logic [127:0] insn,
    input logic begins,
    input logic checked,
    input logic [16:0] width,
    input logic fits_nothing,  // in the cycle of `checked`: a LOAD of nothing is valid
    input logic refused,
    input logic [7:0] pad_value,
    input logic oldest,
    input logic occupied,  // the write port, by another LOAD
    input logic beat,
    input logic [BUS_BITS-1:0] beat_data,
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
  wire [7:0] value = memory == PADS ? pad_value : 8'd0;

  // --- what comes -----------------------------------------------------------------------------------------
  logic [15:0] rows_left, x_left, tile, row_tiles, next_row;  // of the scratchpad: tiles of a row, and where the next one begins
  logic [WORD_INDEX_BITS-1:0] word, last_word;
  logic [SKEW_BITS-1:0] skew, row_skew;  // the first micro-op of a beat that counts; of the row's first beat
  wire [4:0] uops_to_end = 5'(UOPS) - 5'(skew);
  wire row_goes_on = 16'(uops_to_end) < x_left;  // after this beat of micro-ops
  wire [4:0] uops_here = row_goes_on ? uops_to_end : x_left[4:0];
  wire takes = beat && active;
  wire tile_ends = is_uop || word == last_word;
  wire [15:0] tiles_here = is_uop ? 16'(uops_here) : 16'd1;
  wire row_ends = is_uop ? !row_goes_on : tile_ends && x_left == 16'd1;
  wire [SKEW_BITS-1:0] next_skew = UOPS > 1 ? row_skew + SKEW_BITS'(x_stride) : '0;
  assign last_beat = takes && row_ends && rows_left == 16'd1;
  assign bytes = !takes ? 16'd0 : is_uop ? 16'(uops_here) << 2 : 16'(BUS_BYTES);

  write_t first, second, third;
  logic [2:0] ended;  // the last beat, one to three cycles ago and more
  always_ff @(posedge clk) begin
    first <= '{
        valid: takes, pad: 1'b0, memory: memory, tile: tile, word: is_uop ? WORD_INDEX_BITS'(skew) : word, count: uops_here,
        pad_value: value, data: beat_data
    };
    second <= first;
    ended <= {ended[1] | ended[2], ended[0] | ended[1], last_beat};
    if (takes) begin
      word <= tile_ends ? '0 : word + 1'b1;
      if (tile_ends) begin
        tile <= row_ends ? next_row : tile + tiles_here;
        x_left <= row_ends ? x_size : x_left - tiles_here;
        skew <= row_ends ? next_skew : '0;
      end
      if (row_ends) begin
        rows_left <= rows_left - 16'd1;
        row_skew <= next_skew;
        next_row <= next_row + row_tiles;
      end
    end
    if (begins) begin
      rows_left <= y_size;
      row_tiles <= width[15:0];
      x_left <= x_size;
      word <= '0;
      last_word <= WORD_INDEX_BITS'((32'd1 << tile_bytes_log2) / BUS_BYTES - 1);
      tile <= 16'(32'(insn[MEMORY_SRAM_BASE_AT+:16]) + 32'(insn[MEMORY_Y_PAD_0_AT+:4]) * 32'(width) + 32'(insn[MEMORY_X_PAD_0_AT+:4]));
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
