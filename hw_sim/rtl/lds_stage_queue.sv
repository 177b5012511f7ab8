// The queue of one stage, and the condition for the start of its instructions.
//
//   start: the stage is idle (or lets the head follow), an instruction is at the head, and all tokens that it pops are available.
//
// In:   instructions from fetch; tokens; `done` in the last cycle of the running instruction.
// Out:  the head, with `start` in the first cycle of its run; the tokens it pops and pushes; room for fetch.
// Next: the stages. An instruction keeps its place until it is done, so that the queue has as many places as in the timing model.
// SPDX-License-Identifier: Apache-2.0
import lds_isa_pkg::*;
module lds_stage_queue #(
    parameter int ENTRIES = 512,
    parameter int RUNNING = 1  // instructions that may run at a time
) (
    input logic clk,
    input logic clear,
    input logic enable,  // no instruction starts without it
    input logic push,
    input lds_types_pkg::entry_t pushed,
    output logic room,
    input logic some_prev,
    input logic some_next,
    output logic start,
    output lds_types_pkg::entry_t head,
    output lds_types_pkg::entry_t running,  // the running instruction, from the cycle after its start; of several the newest
    input logic follow,  // the head may start though others run
    output logic [31:0] oldest,  // the index of the oldest that runs
    input logic done,
    output logic busy,
    output logic empty,  // no instruction runs or waits
    output logic blocked,  // no instruction runs, and the head waits for a token
    output logic pop_prev,
    output logic pop_next,
    output logic push_prev,
    output logic push_next
);
  localparam int LOG = $clog2(ENTRIES) < 1 ? 1 : $clog2(ENTRIES);
  localparam int BITS = $bits(lds_types_pkg::entry_t);

  logic [LOG:0] places;  // occupied places, including that of the running instruction
  logic [LOG-1:0] write_at, read_at;
  logic head_valid, next_valid;
  logic [LOG:0] waiting;  // in the memory
  // The head is a register, because it is on a critical path. The next instruction is read from the memory, or bypasses it.
  lds_types_pkg::entry_t stored, direct;
  logic is_direct;
  wire moves = next_valid && (!head_valid || start);
  wire refill = (!next_valid || moves) && waiting != 0;
  wire past = push && (!next_valid || moves) && waiting == 0;

  lds_ram #(.WIDTH(BITS), .LOG_DEPTH(LOG)) memory (
      .clk, .write(push), .write_at, .write_data(pushed), .read(refill), .read_at, .read_data(stored)
  );

  // --- what runs ------------------------------------------------------------------------------------------
  logic more, only;  // another one may run beside; no other one runs
  logic pushes_prev, pushes_next;  // when the oldest is done
  if (RUNNING == 1) begin : g_one
    assign {more, only} = 2'b01;
    assign {pushes_prev, pushes_next, oldest} = {running.insn[PUSH_PREV_AT], running.insn[PUSH_NEXT_AT], running.index};
  end else begin : g_several
    localparam int TURN = $clog2(RUNNING);
    logic [RUNNING-1:0][33:0] runs;
    logic [TURN-1:0] first, last;
    logic [TURN:0] count;
    assign more = follow && 32'(count) != RUNNING;
    assign only = count == (TURN + 1)'(1);
    assign {pushes_prev, pushes_next, oldest} = runs[first];
    always_ff @(posedge clk) begin
      if (start) runs[last] <= {head.insn[PUSH_PREV_AT], head.insn[PUSH_NEXT_AT], head.index};
      if (start) last <= last + 1'b1;
      if (done) first <= first + 1'b1;
      if (start != done) count <= count + {{TURN{done}}, 1'b1};
      if (clear) {first, last, count} <= '0;
    end
  end

  wire wants_prev = head.insn[POP_PREV_AT], wants_next = head.insn[POP_NEXT_AT];
  wire tokens = (!wants_prev || some_prev) && (!wants_next || some_next);

  assign room = places != (LOG + 1)'(ENTRIES) || done;
  assign start = enable && head_valid && tokens && (!busy || more);
  assign pop_prev = start && wants_prev;
  assign pop_next = start && wants_next;
  assign push_prev = done && pushes_prev;
  assign push_next = done && pushes_next;
  assign empty = places == 0;
  assign blocked = head_valid && !busy && !tokens;

  always_ff @(posedge clk) begin
    if (clear) begin
      places <= 0;
      write_at <= 0;
      read_at <= 0;
      waiting <= 0;
      head_valid <= 1'b0;
      next_valid <= 1'b0;
      busy <= 1'b0;
    end else begin
      // One up or one down: the late signal only selects, so that there is no chain of two additions.
      if (push != done) places <= places + {{LOG{done}}, 1'b1};
      if ((push && !past) != refill) waiting <= waiting + {{LOG{refill}}, 1'b1};
      if (push && !past) write_at <= write_at + 1'b1;
      if (refill) read_at <= read_at + 1'b1;
      if (refill || past) next_valid <= 1'b1;
      else if (moves) next_valid <= 1'b0;
      if (moves) head_valid <= 1'b1;
      else if (start) head_valid <= 1'b0;
      if (start) busy <= 1'b1;
      else if (done && only) busy <= 1'b0;
    end
    if (past || refill) is_direct <= past;
    if (past) direct <= pushed;
    if (moves) head <= is_direct ? direct : stored;
    if (start) running <= head;
  end
endmodule
