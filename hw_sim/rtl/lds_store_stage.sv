// The store stage: tiles of OUT to DRAM, burst by burst, or to INP, as they are or requantized; whole ones of ACC to DRAM; CONFIG.
//
// In:   its queue's head; tiles of OUT; AXI's responses.
// Out:  AXI's writes, and those to INP; `done` when the last one is acknowledged: a token of this stage means that the bytes are in DRAM, or
//       in INP when the next instruction reads it.
// Next: lds_device.sv.
//
//   start + 2: address and first word; of a STORE that requantizes 14 cycles later, and 3 for its operands, which all rows with operands
//   of their own wait for.  A word a cycle; with STORE_TILE_CYCLES a tile takes that long.  last acknowledge: done.
//   To INP: a tile a cycle from where the first word would be; the last one: done.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_store_stage (
    input logic clk,
    input logic clear,
    input logic halt,  // no new burst; one that has begun is completed
    input logic start,
    input entry_t head,
    input entry_t running,
    input region_t [MAX_REGIONS-1:0] regions,
    output logic out_read,
    output logic [LA-1:0] out_tile,
    input logic [OUT_BITS-1:0] out_data,  // in the cycle after
    output tile_write_t write,  // into INP
    output logic done,
    output error_t error,  // a cycle later
    output logic idle,  // no burst is in flight
    output logic [15:0] bytes,  // bytes that are written in this cycle
    // AXI4
    output logic awvalid,
    input logic awready,
    output logic [63:0] awaddr,
    output logic [7:0] awlen,
    output logic wvalid,
    input logic wready,
    output logic [BUS_BITS-1:0] wdata,
    output logic wlast,
    input logic bvalid,
    input logic [1:0] bresp
);
  localparam int ROW_BITS = 16 + LOG_LANES + (CAN_STORE_ACC ? 2 : 0);
  localparam int PAUSE = STORE_TILE_CYCLES > INP_WORDS ? STORE_TILE_CYCLES - INP_WORDS : 0;
  localparam int WHOLE_PAUSE = STORE_TILE_CYCLES > ACC_WORDS ? STORE_TILE_CYCLES - ACC_WORDS : 0;
  localparam int MOST_WORDS = CAN_STORE_ACC ? ACC_WORDS : INP_WORDS;
  localparam int WORD_LOG = MOST_WORDS > 1 ? $clog2(MOST_WORDS) : 1, NARROW_LOG = INP_WORDS > 1 ? $clog2(INP_WORDS) : 1;

  logic begins, checked, second, sends;  // sends: a burst is in flight
  wire [127:0] insn = running.insn;
  wire [15:0] y_size = insn[MEMORY_Y_SIZE_AT+:16], x_size = insn[MEMORY_X_SIZE_AT+:16], x_stride = insn[MEMORY_X_STRIDE_AT+:16];
  wire is_store = !CAN_STORE_REQUANTIZE || head.insn[OPCODE_AT+:3] == OPCODE_STORE;
  wire moves = is_store && head.insn[MEMORY_X_SIZE_AT+:16] != 0 && head.insn[MEMORY_Y_SIZE_AT+:16] != 0;

  logic [63:0] address, bad_address;
  logic [16:0] width_unused;
  logic [3:0] bad, bad_place;
  logic fits_nothing_unused, fine, fine_place;
  logic [63:0] bad_place_address;
  lds_load_check #(.WRITES(1'b1)) check (
      .clk, .head(head.insn), .insn, .begins, .regions, .address, .width(width_unused), .fits_nothing(fits_nothing_unused), .fine(fine_place),
      .error(bad_place), .error_address(bad_place_address)
  );

  wire to_inp = CAN_STORE_INP && insn[MEMORY_MEMORY_ID_AT+:3] == MEMORY_INP;
  wire whole = CAN_STORE_ACC && insn[MEMORY_MEMORY_ID_AT+:3] == MEMORY_ACC;
  wire [ROW_BITS-1:0] row_bytes = ROW_BITS'(x_size) << LOG_LANES, stride_bytes = ROW_BITS'(x_stride) << LOG_LANES;  // of narrow tiles
  logic asks, single, last, grant;
  logic [63:0] burst_address;
  logic [8:0] beats;
  lds_bursts #(.ROW_BITS(ROW_BITS)) bursts (
      .clk, .clear, .setup(begins && !to_inp), .address, .row_bytes(whole ? row_bytes << 2 : row_bytes), .rows(y_size),
      .stride_bytes(whole ? stride_bytes << 2 : stride_bytes), .delay(4'd0), .request(asks), .request_address(burst_address), .request_beats(beats),
      .single, .last, .grant
  );

  // --- the address, once a burst --------------------------------------------------------------------------
  logic addressed;  // the burst's address has been accepted
  logic ready;  // the burst may begin
  logic has_tile;
  logic [INP_BITS-1:0] sent_tile;
  wire burst = asks && fine && ready && (!halt || sends);
  assign awvalid = burst && !addressed;
  assign awaddr = burst_address;
  assign awlen = 8'(beats - 9'd1);

  // --- its words ------------------------------------------------------------------------------------------
  logic [LA-1:0] tile;
  logic [WORD_LOG-1:0] word;
  logic [3:0] pause;
  logic [8:0] sent, ahead_of_last;  // ahead_of_last: words before the burst's last one, known from its second cycle on
  logic sent_all;
  logic was_last;  // the burst is the last one: the request is held for two cycles at least
  assign wvalid = burst && !sent_all && pause == 0 && has_tile;
  wire [NARROW_LOG-1:0] narrow_word = NARROW_LOG'(word);
  wire [BUS_BITS-1:0] narrow_data = sent_tile[32'(narrow_word)*BUS_BITS+:BUS_BITS];
  if (CAN_STORE_ACC) begin : g_whole
    assign wdata = whole ? out_data[32'(word)*BUS_BITS+:BUS_BITS] : narrow_data;
  end else begin : g_narrow
    assign wdata = narrow_data;
  end
  assign wlast = sent == 0 ? single : sent == ahead_of_last;
  wire takes = wvalid && wready;
  logic put, put_last;  // a tile into INP; the last one
  wire tile_ends = put || (takes && (whole ? 32'(word) == ACC_WORDS - 1 : INP_WORDS == 1 || 32'(word) == INP_WORDS - 1));
  wire plain_read = begins || tile_ends;
  wire [LA-1:0] plain_tile = begins ? LA'(insn[MEMORY_SRAM_BASE_AT+:16]) : tile;
  assign bytes = takes ? 16'(BUS_BYTES) : 16'd0;

  // --- requantization -------------------------------------------------------------------------------------
  if (CAN_STORE_REQUANTIZE) begin : g_requantize
    localparam int FIRST_WAIT = 14, OPERAND_WAIT = 3;
    wire requantizes = insn[STORE_REQUANTIZE_AT], steps = insn[STORE_OPERAND_STEP_AT];

    logic [31:0] zero_point, low, high;
    logic [1:0] rounding;
    always_ff @(posedge clk) begin
      if (start && !is_store)
        case (head.insn[CONFIG_REGISTER_ID_AT+:6])
          CONFIG_RQ_ZERO_POINT: zero_point <= head.insn[CONFIG_VALUE_AT+:32];
          CONFIG_RQ_MIN: low <= head.insn[CONFIG_VALUE_AT+:32];
          CONFIG_RQ_MAX: high <= head.insn[CONFIG_VALUE_AT+:32];
          default: rounding <= head.insn[CONFIG_VALUE_AT+:2];
        endcase
      if (clear) begin
        zero_point <= DEFAULT_RQ_ZERO_POINT;
        low <= DEFAULT_RQ_MIN;
        high <= DEFAULT_RQ_MAX;
        rounding <= DEFAULT_RQ_ROUNDING[1:0];
      end
    end

    logic some, rq_read;
    logic [LA-1:0] rq_read_at;
    logic [INP_BITS-1:0] requantized;
    lds_store_rq lanes (
        .clk, .clear, .begins, .insn, .zero_point, .low, .high, .rounding, .read(rq_read), .read_at(rq_read_at), .data(out_data),
        .tile(requantized), .some, .take(tile_ends && requantizes)
    );

    // The cycles until the next burst may begin, and the tiles that are left of its row.
    logic [4:0] waits;
    logic [15:0] columns;
    wire row_ends = tile_ends && columns == 16'd1;
    always_ff @(posedge clk) begin
      if (begins) waits <= requantizes ? 5'(FIRST_WAIT + OPERAND_WAIT) : 5'd0;
      else if (row_ends && requantizes && steps) waits <= 5'(OPERAND_WAIT);
      else if (asks && fine && !sends && waits != 0) waits <= waits - 1'b1;
      if (begins || row_ends) columns <= x_size;
      else if (tile_ends) columns <= columns - 1'b1;
    end
    assign ready = sends || waits == 0;
    assign has_tile = !requantizes || some;
    assign sent_tile = requantizes ? requantized : low_bytes(out_data);
    assign out_read = requantizes ? rq_read : plain_read;
    assign out_tile = requantizes ? rq_read_at : plain_tile;

    logic [19:0] past_operands;
    always_ff @(posedge clk) if (begins) past_operands <= 20'(insn[STORE_OPERANDS_AT+:LA]) + (steps ? 20'd3 * 20'(y_size) : 20'd3);
    wire operands_over = requantizes && past_operands > 20'(1 << LA);
    assign fine = fine_place && !operands_over;
    assign bad = operands_over ? ERROR_SRAM_BOUNDS : bad_place;
    assign bad_address = operands_over ? 64'd0 : bad_place_address;
  end else begin : g_plain
    assign {ready, has_tile} = 2'b11;
    assign sent_tile = low_bytes(out_data);
    assign {out_read, out_tile} = {plain_read, plain_tile};
    assign {fine, bad, bad_address} = {fine_place, bad_place, bad_place_address};
  end

  // --- INP ------------------------------------------------------------------------------------------------
  logic moving;  // a STORE to INP
  if (CAN_STORE_INP) begin : g_to_inp
    logic [15:0] left, rows_left, to_tile, jump;
    assign put = moving && fine && has_tile;
    assign put_last = put && left == 16'd1 && rows_left == 16'd1;
    always_ff @(posedge clk) begin
      write <= '{valid: put && !clear, tile: to_tile, data: sent_tile};
      if (begins) begin
        moving <= to_inp;
        left <= x_size;
        rows_left <= y_size;
        to_tile <= insn[MEMORY_DRAM_BASE_AT+:16];
        jump <= x_stride - x_size + 16'd1;
      end else if (put) begin
        left <= left == 16'd1 ? x_size : left - 16'd1;
        to_tile <= to_tile + (left == 16'd1 ? jump : 16'd1);
        if (left == 16'd1) rows_left <= rows_left - 16'd1;
        if (put_last) moving <= 1'b0;
      end
      if (clear || (checked && !fine)) moving <= 1'b0;
    end
  end else begin : g_dram_only
    assign {put, put_last, write, moving} = '0;
  end

  assign grant = sends && bvalid;
  wire failed = grant && bresp != 2'd0;
  assign idle = !sends;
  assign done = second || put_last || (grant && was_last && !failed);

  always_ff @(posedge clk) begin
    error <= '{
        valid: ((checked && !fine) || failed) && !clear,
        code: failed ? ERROR_BUS : bad,
        index: running.index,
        address: failed ? burst_address[31:0] : bad_address[31:0]
    };
    begins <= start && moves && !clear;
    checked <= begins && !clear;
    was_last <= last;
    ahead_of_last <= beats - 9'd1;
    second <= start && !moves && !clear;
    if (begins) tile <= LA'(insn[MEMORY_SRAM_BASE_AT+:16]) + 1'b1;
    else if (tile_ends) tile <= tile + 1'b1;
    if (begins || tile_ends) begin
      word <= '0;
      pause <= whole ? 4'(WHOLE_PAUSE) : 4'(PAUSE);
    end else begin
      if (takes && MOST_WORDS > 1) word <= word + 1'b1;
      if (pause != 0 && burst && !sent_all) pause <= pause - 1'b1;
    end
    if (begins || grant) begin
      sent <= 9'd0;
      sent_all <= 1'b0;
      addressed <= 1'b0;
    end else begin
      if (takes) sent <= sent + 9'd1;
      if (takes && wlast) sent_all <= 1'b1;
      if (awvalid && awready) addressed <= 1'b1;
    end
    if (grant) sends <= 1'b0;
    else if (burst) sends <= 1'b1;
    if (clear) sends <= 1'b0;
  end

`ifdef FORMAL_LDS_STORE_STAGE
`include "proofs/lds_store_stage.svh"
`endif
endmodule
