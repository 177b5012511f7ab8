// Sizes that follow from a device's parameters, and the structures that modules exchange.
//
// In:   lds_config_pkg, lds_isa_pkg.
// Out:  sizes in bits, tiles and words; entry_t, error_t, region_t, write_t.
// Next: every module.
// SPDX-License-Identifier: Apache-2.0
package lds_types_pkg;
  import lds_config_pkg::*;
  import lds_isa_pkg::*;

  localparam int BATCH = 1 << LOG_BATCH, BLOCK = 1 << LOG_BLOCK, LANES = BATCH * BLOCK;
  localparam int LOG_LANES = LOG_BATCH + LOG_BLOCK;
  localparam int BUS_BYTES = BUS_BITS / 8, LOG_BEAT = $clog2(BUS_BYTES);

  // Bits of a tile, and the number of bus words that contain it (UOP: micro-ops in a word).
  localparam int INP_BITS = 8 * LANES, WGT_BITS = 8 * BLOCK * BLOCK, ACC_BITS = 32 * LANES;
  localparam int INP_WORDS = INP_BITS / BUS_BITS, WGT_WORDS = WGT_BITS / BUS_BITS, ACC_WORDS = ACC_BITS / BUS_BITS;
  // Of a tile that the store stage reads: it requantizes whole accumulators, or stores them.
  localparam int OUT_BITS = CAN_STORE_REQUANTIZE || CAN_STORE_ACC ? ACC_BITS : INP_BITS;
  localparam int UOPS = BUS_BITS / 32, LOG_UOPS = $clog2(UOPS);
  localparam int UOP_INDEX_BITS = $clog2(UOP_DEPTH);
  // The largest window of DEPTHWISE.
  localparam int WINDOW_ROWS = BLOCK / WINDOW_PITCH < MOST_WINDOW_ROWS ? BLOCK / WINDOW_PITCH : MOST_WINDOW_ROWS;
  localparam int WIDE_PRODUCT = WINDOW_PITCH * WINDOW_ROWS - 1;  // of a lane, the one that counts WIDE_FACTOR times
  localparam int SRC_BITS = LA > LI ? LA : LI;
  localparam int PROBE_BITS = WGT_BITS > ACC_BITS ? WGT_BITS : ACC_BITS;
  localparam int WORD_INDEX_BITS = 16;  // of a word within a tile

  // Groups of weights of 4 bits: log2 of their tiles; in units of what dram_base counts, the multipliers and minima and eight times as much
  // of numbers; words of the bus of both, the latter of a tile.
  localparam int LOG_GROUP_TILES = $clog2(GROUP_WEIGHTS) > LOG_BLOCK ? $clog2(GROUP_WEIGHTS) - LOG_BLOCK : 0;
  localparam int GROUP_BASES = 1 + GROUP_WEIGHTS / 4;
  localparam int HEAD_WORDS = 2 * BLOCK / BUS_BYTES, NUMBER_WORDS = WGT_WORDS / 2;

  // Log2 of a tile's bytes in DRAM; of WGT_4BIT and WGT_PLANES of what dram_base counts.
  function automatic logic [4:0] tile_log2(input logic [2:0] memory);
    case (memory)
      MEMORY_UOP: tile_log2 = 5'd2;
      MEMORY_WGT: tile_log2 = 5'(2 * LOG_BLOCK);
      MEMORY_WGT_4BIT: tile_log2 = 5'(LOG_BLOCK + 1);
      MEMORY_WGT_PLANES: tile_log2 = 5'(LOG_BEAT);
      MEMORY_ACC: tile_log2 = 5'(LOG_LANES + 2);
      default: tile_log2 = 5'(LOG_LANES);
    endcase
  endfunction

  // Tiles of a scratchpad.
  function automatic logic [16:0] depth_of(input logic [2:0] memory);
    case (memory)
      MEMORY_UOP: depth_of = 17'(UOP_DEPTH);
      MEMORY_WGT, MEMORY_WGT_4BIT, MEMORY_WGT_PLANES: depth_of = 17'(1 << LW);
      MEMORY_INP: depth_of = 17'(1 << LI);
      default: depth_of = 17'(1 << LA);
    endcase
  endfunction

  // What is stored of a tile that the store stage reads, as it is.
  function automatic logic [INP_BITS-1:0] low_bytes(input logic [OUT_BITS-1:0] tile);
    for (int n = 0; n < LANES; n++) low_bytes[8*n+:8] = tile[(OUT_BITS/LANES)*n+:8];
  endfunction

  // An instruction in a queue. `index`: its index in the stream.
  typedef struct packed {
    logic refused;
    logic [31:0] index;
    logic [127:0] insn;
  } entry_t;

  // The error that stops a program. `valid` for one cycle.
  typedef struct packed {
    logic valid;
    logic [3:0] code;
    logic [31:0] index;
    logic [31:0] address;
  } error_t;

  // A DRAM region as the registers describe it.
  typedef struct packed {
    logic [63:0] base;
    logic [63:0] limit;  // bytes; bit 63: stores are refused
  } region_t;

  // A write of a LOAD into a scratchpad: a word of DRAM, two words that one became, or a whole tile of padding.
  typedef struct packed {
    logic valid;
    logic pad;
    logic wide;  // words 2 * word and 2 * word + 1
    logic [2:0] memory;
    logic [15:0] tile;  // UOP: the tile of the word's first micro-op
    logic [WORD_INDEX_BITS-1:0] word;  // of the tile; UOP: the first micro-op of the word that is written
    logic [4:0] count;  // UOP: the number of micro-ops that are written
    logic [7:0] pad_value;
    logic [BUS_BITS-1:0] data, second;  // wide: the second word
  } write_t;

  // What a word of packed weights became in a cycle: two words of a tile. Of bit planes it is a row.
  typedef struct packed {
    logic complete;
    logic [WORD_INDEX_BITS-1:0] row;  // of its tile
    logic tile_ends;  // with this row
    logic [2*BUS_BITS-1:0] weights;
  } unpacked_t;

  // A write of a STORE into INP: a whole tile.
  typedef struct packed {
    logic valid;
    logic [15:0] tile;
    logic [INP_BITS-1:0] data;
  } tile_write_t;
endpackage
