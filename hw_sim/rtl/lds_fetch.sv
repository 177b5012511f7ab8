// Fetch: reads the stream in batches, and puts each instruction into the queue of its stage.
//
// In:   `launch` with the address of the stream; grants and beats of the read channel; which queues have room.
// Out:  requests; one instruction a cycle, with its index in the stream.
// Next: lds_stage_queue.sv. A batch is delivered when it has arrived completely; then the next one is requested.
//
//   launch + 3: request.  last beat + 1: first instruction pushed, at the head of its queue 2 cycles later.  last push + 4: request.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_fetch (
    input logic clk,
    input logic clear,
    input logic launch,
    input logic [63:0] stream_address,
    input logic [31:0] stream_count,
    output logic request,
    output logic [63:0] request_address,
    output logic [8:0] request_beats,
    input logic grant,
    input logic beat,
    input logic [BUS_BITS-1:0] beat_data,
    input logic [2:0] room,
    output logic [2:0] push,
    output entry_t pushed,
    output logic stuck  // the whole stream is in the queues, or a full queue blocks the rest
);
  // The buffer's words hold whole instructions, or whole beats.
  localparam int WORD = BUS_BITS > INSN_BITS ? BUS_BITS : INSN_BITS;
  localparam int BEATS = WORD / BUS_BITS, LOG_BEATS = $clog2(BEATS);
  localparam int INSNS = WORD / INSN_BITS, LOG_INSNS = $clog2(INSNS);
  localparam int LOG_WORDS = $clog2(FETCH_BATCH) + 1;
  localparam int BATCH_BYTES_BITS = $clog2(FETCH_BATCH) + 6;

  typedef enum logic [2:0] {IDLE, WAIT, SETUP, READ, DELIVER} state_t;
  state_t state;
  logic [1:0] delay;
  logic [63:0] address;
  logic [31:0] count, index;  // instructions not yet requested; the index of the next one to be delivered
  logic [$clog2(FETCH_BATCH):0] batch, left;  // instructions of this batch; not yet delivered
  logic [LOG_WORDS+LOG_BEATS:0] beats_left;
  logic [LOG_WORDS-1:0] write_at, read_at;
  logic [(LOG_BEATS > 0 ? LOG_BEATS : 1)-1:0] part;  // of a word: the next beat
  logic [(LOG_INSNS > 0 ? LOG_INSNS : 1)-1:0] place;  // of a word: the next instruction
  logic single_unused, last_unused;

  wire [$clog2(FETCH_BATCH):0] next_batch = count > FETCH_BATCH ? ($clog2(FETCH_BATCH) + 1)'(FETCH_BATCH) : ($clog2(FETCH_BATCH) + 1)'(count);
  wire [BATCH_BYTES_BITS-1:0] batch_bytes = BATCH_BYTES_BITS'(next_batch) << 4;
  wire [BATCH_BYTES_BITS:0] span = (BATCH_BYTES_BITS + 1)'(batch_bytes) + (BATCH_BYTES_BITS + 1)'(address[LOG_BEAT-1:0]) + (BATCH_BYTES_BITS + 1)'(BUS_BYTES - 1);

  lds_bursts #(.ROW_BITS(BATCH_BYTES_BITS)) bursts (
      .clk, .clear, .setup(state == SETUP), .address, .row_bytes(batch_bytes), .rows(16'd1), .stride_bytes('0), .delay(4'd0), .request,
      .request_address, .request_beats, .single(single_unused), .last(last_unused), .grant
  );

  // --- the buffer -----------------------------------------------------------------------------------
  // The delivered word is in a register, because it is on a critical path; the next one is read from the memory, or just completed.
  logic [WORD-1:0] front, newest, completed, stored;
  logic [LOG_WORDS-1:0] newest_at;
  logic next_word;  // the front word has been delivered
  wire [LOG_WORDS-1:0] first_behind = read_at + LOG_WORDS'(1), second_behind = read_at + LOG_WORDS'(2);
  wire [LOG_WORDS-1:0] behind = next_word ? second_behind : first_behind;
  always_comb begin
    completed = newest;
    for (int b = 0; b < BEATS; b++) if (BEATS == 1 || 32'(part) == b) completed[b*BUS_BITS+:BUS_BITS] = beat_data;
  end
  logic [BEATS-1:0] enable;
  always_comb for (int b = 0; b < BEATS; b++) enable[b] = beat && (BEATS == 1 || 32'(part) == b);
  lds_ram #(.WIDTH(WORD), .LOG_DEPTH(LOG_WORDS), .PARTS(BEATS)) buffer (
      .clk, .write(enable), .write_at, .write_data({BEATS{beat_data}}), .read(1'b1), .read_at(behind), .read_data(stored)
  );
  always_ff @(posedge clk) begin
    if (beat) begin
      newest <= completed;
      newest_at <= write_at;
    end
    if (beat && write_at == 0) front <= completed;
    else if (next_word) front <= newest_at == first_behind ? newest : stored;
  end
  wire [127:0] insn = front[32'(place)*INSN_BITS+:INSN_BITS];

  // --- delivery -------------------------------------------------------------------------------------
  // A refused instruction goes to compute. Refusal is known late, so that the room of both queues is looked up.
  logic [1:0] wanted_stage;
  logic refused;
  lds_insn_check check (.insn, .wanted_stage, .refused);
  wire delivers = state == DELIVER, wanted_room = delivers && room[wanted_stage], compute_room = delivers && room[STAGE_COMPUTE[1:0]];
  wire [2:0] wanted_push = wanted_room ? 3'b001 << wanted_stage : 3'b000;
  wire [2:0] compute_push = compute_room ? 3'b001 << STAGE_COMPUTE : 3'b000;
  wire deliver = refused ? compute_room : wanted_room;
  assign next_word = deliver && (INSNS == 1 || 32'(place) == INSNS - 1);
  assign push = refused ? compute_push : wanted_push;
  always_comb begin
    pushed.refused = refused;
    pushed.index = index;
    pushed.insn = insn;
    if (refused) pushed.insn[MEMORY_MEMORY_ID_AT-1:POP_PREV_AT] = '0;  // it stops the program, whatever its flags are
  end
  assign stuck = state == IDLE || (delivers && !deliver);

  always_ff @(posedge clk) begin
    case (state)
      WAIT: begin
        delay <= delay - 1'b1;
        if (delay == 2'd1) state <= SETUP;
      end
      SETUP: begin
        batch <= next_batch;
        left <= next_batch;
        beats_left <= (LOG_WORDS + LOG_BEATS + 1)'(span >> LOG_BEAT);
        write_at <= 0;
        read_at <= 0;
        part <= '0;
        place <= INSNS > 1 ? $bits(place)'(address >> 4) : '0;
        count <= count - 32'(next_batch);
        address <= address + 64'(batch_bytes);
        state <= READ;
      end
      READ:
      if (beat) begin
        beats_left <= beats_left - 1'b1;
        if (BEATS == 1 || 32'(part) == BEATS - 1) begin
          part <= '0;
          write_at <= write_at + 1'b1;
        end else part <= part + 1'b1;
        if (beats_left == 1) state <= DELIVER;
      end
      DELIVER:
      if (deliver) begin
        index <= index + 1'b1;
        left <= left - 1'b1;
        if (next_word) begin
          place <= '0;
          read_at <= read_at + 1'b1;
        end else place <= place + 1'b1;
        if (left == 1) begin
          state <= count != 0 ? WAIT : IDLE;
          delay <= 2'd2;
        end
      end
      default: ;
    endcase
    if (launch) begin
      address <= stream_address;
      count <= stream_count;
      index <= 0;
      delay <= 2'd1;
      state <= stream_count != 0 ? WAIT : IDLE;
    end
    if (clear) state <= IDLE;
  end
endmodule
