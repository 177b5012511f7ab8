// Executes LOADs: requests their bursts, writes the received words, and writes padding in between. Of WGT_4BIT a word becomes two.
//
// In:   the instruction, `start` in its first cycle; the read channel's grants and beats; the stage's pad value.
// Out:  writes to the scratchpads, three cycles after the beat; `done` in the last cycle, or the error, three cycles after the start;
//       `follow`: the next LOAD may start though this one has not ended.
// Next: lds_load_stage.sv and lds_compute_stage.sv have one each; lds_load_receiver.sv.
//
//   start + 2 + y_pad_0: first request.  last beat + 3: done (UOP: + 2).  last tile of padding + 1: done.
//   last grant + 2, and no padding left, and LOAD_AHEAD_BEATS to come: the next one may start, while fewer than LOADS are on their way.
//   More beats would hide no more latency, and other readers would wait for them.
// One LOAD requests at a time, and each has a receiver of its own: beats come in the order of the requests.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_load_engine #(
    parameter int LOADS = 1,
    parameter logic [2:0] PADS = MEMORY_INP,  // the memory whose padding has the stage's value; that of the others is 0
    parameter bit GROUPS = 0,  // of weights of 4 bits
    parameter bit PLANES = 0  // weights in bit planes
) (
    input logic clk,
    input logic clear,
    input logic begun,  // an instruction of the stage starts, be it a LOAD or not
    input logic start,
    input entry_t head,
    input entry_t running,
    input region_t [MAX_REGIONS-1:0] regions,
    input logic [7:0] pad_value,
    output logic request,
    output logic refused,  // the request that was granted in the cycle before: the check's result comes too late for the arbiter
    output logic [63:0] request_address,
    output logic [8:0] request_beats,
    input logic grant,
    input logic beat,
    input logic [BUS_BITS-1:0] beat_data,
    output logic [31:0] beat_index,  // of the LOAD to which a beat of this cycle belongs
    output logic follow,
    output write_t write,
    output logic [15:0] bytes,  // bytes in the beat of this cycle
    output logic done,
    output error_t error
);
  localparam int TILE_LOG2_MAX = 2 * LOG_BLOCK > LOG_LANES + 2 ? 2 * LOG_BLOCK : LOG_LANES + 2;
  localparam int ROW_BITS = 16 + TILE_LOG2_MAX + (GROUPS ? 3 : 0);

  logic begins, checked;
  wire [127:0] insn = running.insn;
  wire [2:0] memory = insn[MEMORY_MEMORY_ID_AT+:3];
  wire [4:0] tile_bytes_log2 = tile_log2(memory);
  wire [15:0] y_size = insn[MEMORY_Y_SIZE_AT+:16], x_size = insn[MEMORY_X_SIZE_AT+:16], x_stride = insn[MEMORY_X_STRIDE_AT+:16];
  wire in_groups = GROUPS && memory == MEMORY_WGT_4BIT;
  wire [15:0] rows = PLANES && memory == MEMORY_WGT_PLANES ? 16'(y_size != 0) : y_size;  // in DRAM

  logic [63:0] address, bad_address;
  logic [16:0] width;
  logic [3:0] bad;
  logic fits_nothing, fine;
  lds_load_check #(.WRITES(1'b0)) check (
      .clk, .head(head.insn), .insn, .begins, .regions, .address, .width, .fits_nothing, .fine, .error(bad), .error_address(bad_address)
  );
  // The error is known late in the cycle, and takes effect from the next one on.
  always_ff @(posedge clk) begin
    error <= '{valid: checked && !fine && !clear, code: bad, index: running.index, address: bad_address[31:0]};
    if (checked) refused <= !fine;
    if (begins || clear) refused <= 1'b0;
  end

  // Tiles in DRAM, or groups.
  function automatic logic [ROW_BITS-1:0] bytes_of(input logic [15:0] count);
    bytes_of = (in_groups ? ROW_BITS'(count) * ROW_BITS'(GROUP_BASES) : ROW_BITS'(count)) << tile_bytes_log2;
  endfunction

  // --- requests -----------------------------------------------------------------------------------------
  logic asks, single_unused, last;
  lds_bursts #(.ROW_BITS(ROW_BITS)) bursts (
      .clk, .clear, .setup(begins && y_size != 0), .address, .row_bytes(bytes_of(x_size)), .rows,
      .stride_bytes(bytes_of(x_stride)), .delay(insn[MEMORY_Y_PAD_0_AT+:4]), .request(asks), .request_address,
      .request_beats, .single(single_unused), .last, .grant
  );
  assign request = asks && !refused;

  // --- receivers, in turn ---------------------------------------------------------------------------------
  logic [LOADS-1:0] newest, oldest, receives, ends, ended, padded, occupies, in_groups_of, codes;
  write_t [LOADS-1:0] writes;
  logic [LOADS-1:0][15:0] received;
  entry_t [LOADS-1:0] loads;
  logic requested;  // the newest has no request left

  // Packed weights are unpacked here, once: words come one LOAD after the other.
  unpacked_t planes, unpacked;
  if (PLANES) begin : g_planes
    lds_weight_planes weight_planes (
        .clk, .clear, .take(beat && (codes & receives) != 0), .last(ends != 0), .word(beat_data), .complete(planes.complete), .row(planes.row),
        .tile_ends(planes.tile_ends), .weights(planes.weights)
    );
  end else begin : g_no_planes
    assign planes = '0;
  end
  if (GROUPS) begin : g_groups
    logic packs, packed_before;
    logic [2*BUS_BITS-1:0] weights;
    assign packs = beat && (in_groups_of & receives) != 0;
    lds_weight_groups weight_groups (.clk, .clear, .take(packs), .last(ends != 0), .word(beat_data), .weights);
    always_ff @(posedge clk) packed_before <= packs;
    always_comb begin
      unpacked = planes;
      if (!PLANES || packed_before) unpacked.weights = weights;
    end
  end else begin : g_no_groups
    assign unpacked = planes;
  end
  wire [15:0] first_tile = 16'(32'(insn[MEMORY_SRAM_BASE_AT+:16]) + 32'(insn[MEMORY_Y_PAD_0_AT+:4]) * 32'(width) + 32'(insn[MEMORY_X_PAD_0_AT+:4]));
  for (genvar r = 0; r < LOADS; r++) begin : g_receiver
    lds_load_receiver #(.PADS(PADS), .GROUPS(GROUPS), .PLANES(PLANES)) receiver (
        .clk, .clear, .insn(loads[r].insn), .begins(begins && newest[r]), .checked(checked && newest[r]), .first_tile, .width, .fits_nothing,
        .refused(refused && newest[r]), .pad_value, .oldest(oldest[r]), .occupied((occupies & ~(LOADS'(1) << r)) != 0), .beat(beat && receives[r]),
        .beat_data, .last_beat(ends[r]), .occupies(occupies[r]), .unpacked, .in_groups(in_groups_of[r]), .codes(codes[r]), .padded(padded[r]), .write(writes[r]), .bytes(received[r]), .done(ended[r])
    );
  end
  assign done = ended != 0;
  always_comb begin
    write = writes[0];
    bytes = received[0];
    beat_index = loads[0].index;
    for (int r = 1; r < LOADS; r++) begin
      if (writes[r].valid) write = writes[r];
      if (receives[r]) bytes = received[r];
      if (receives[r]) beat_index = loads[r].index;
    end
  end
  if (LOADS == 1) begin : g_one
    assign {newest, oldest, receives} = 3'b111;
    assign loads[0] = running;
    assign {requested, follow} = 2'b00;
  end else begin : g_several
    function automatic logic [LOADS-1:0] after(input logic [LOADS-1:0] turn);
      after = {turn[LOADS-2:0], turn[LOADS-1]};
    endfunction
    logic [19:0] coming;  // beats that were requested
    always_ff @(posedge clk) begin
      coming <= coming + (grant ? 20'(request_beats) : 20'd0) - 20'(beat);
      if (start) newest <= after(newest);
      for (int r = 0; r < LOADS; r++) if (start && newest[(r+LOADS-1)%LOADS]) loads[r] <= head;
      if (ends != 0 || (begins && y_size == 0)) receives <= after(receives);
      if (ended != 0) oldest <= after(oldest);
      requested <= !begun && (requested || (grant && last));
      follow <= !begun && requested && (padded & newest) != 0 && !refused && 32'(coming) <= LOAD_AHEAD_BEATS;
      if (clear) begin
        newest <= LOADS'(1) << (LOADS - 1);
        receives <= LOADS'(1);
        oldest <= LOADS'(1);
        coming <= '0;
        requested <= 1'b0;
        follow <= 1'b0;
      end
    end
  end
  always_ff @(posedge clk) begin
    begins <= start && !clear;
    checked <= begins && !clear;
  end
endmodule
