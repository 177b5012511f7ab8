// Divides rows of bytes in DRAM into bursts: each row begins a new burst, and none crosses a boundary or is too long.
//
// In:   `setup` with rows; a grant for each requested burst.
// Out:  a request, held from the second cycle after `setup` on (and `delay` cycles more), and from the second cycle after each
//       grant; `last` with the last request, `single` with one of a single beat.
// Next: lds_fetch.sv, lds_load_engine.sv, lds_store_stage.sv.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_types_pkg::*;
module lds_bursts #(
    parameter int ROW_BITS = 28,  // of the bytes of a row, and from one row to the next
    parameter int ADDRESS_BITS = 64
) (
    input logic clk,
    input logic clear,
    input logic setup,
    input logic [ADDRESS_BITS-1:0] address,
    input logic [ROW_BITS-1:0] row_bytes,
    input logic [15:0] rows,  // not 0
    input logic [ROW_BITS-1:0] stride_bytes,
    input logic [3:0] delay,
    output logic request,
    output logic [ADDRESS_BITS-1:0] request_address,
    output logic [8:0] request_beats,
    output logic single,
    output logic last,
    input logic grant
);
  localparam int BOUNDARY = BURST_BOUNDARY_BYTES / BUS_BYTES, LOG_BOUNDARY = $clog2(BOUNDARY);
  localparam int SHORTEST = BOUNDARY < BURST_MAX_BEATS ? BOUNDARY : BURST_MAX_BEATS;
  localparam int BEATS_BITS = ROW_BITS - LOG_BEAT + 1;

  typedef enum logic [1:0] {IDLE, HELD, ASKING, BETWEEN} state_t;
  state_t state;
  logic [ADDRESS_BITS-1:0] row;  // the first byte of the row
  logic [ADDRESS_BITS-LOG_BEAT-1:0] at;  // in beats: the start of the next request
  logic [BEATS_BITS-1:0] left;  // beats that are left in the row
  logic [LOG_BOUNDARY-1:0] to_boundary;  // beats from there to the boundary; 0: it stands at one
  logic [15:0] rows_left;
  logic [ROW_BITS-1:0] bytes, stride;
  logic new_row;
  logic [8:0] taken;  // beats of the request that was granted in the cycle before
  logic [3:0] held;

  // Beats that a row touches.
  function automatic logic [BEATS_BITS-1:0] span(input logic [LOG_BEAT-1:0] skew, input logic [ROW_BITS-1:0] size);
    logic [ROW_BITS:0] end_byte;
    end_byte = (ROW_BITS + 1)'(size) + (ROW_BITS + 1)'(skew) + (ROW_BITS + 1)'(BUS_BYTES - 1);
    span = end_byte[ROW_BITS:LOG_BEAT];
  endfunction

  // Three comparisons in parallel, because the result is on a critical path.
  wire [LOG_BOUNDARY:0] most = to_boundary != 0 && 32'(to_boundary) < SHORTEST ? (LOG_BOUNDARY + 1)'(to_boundary) : (LOG_BOUNDARY + 1)'(SHORTEST);
  wire row_ends = 32'(left) <= SHORTEST && (to_boundary == 0 || 32'(left) <= 32'(to_boundary));

  assign request = state == ASKING;
  assign request_address = {at, {LOG_BEAT{1'b0}}};
  assign request_beats = row_ends ? 9'(left) : 9'(most);
  assign single = SHORTEST == 1 || left == 1 || 32'(to_boundary) == 1;
  assign last = row_ends && rows_left == 16'd1;

  always_ff @(posedge clk) begin
    case (state)
      IDLE: ;
      HELD: begin
        held <= held - 1'b1;
        if (held == 4'd1) state <= ASKING;
      end
      ASKING:
      if (grant) begin
        taken <= request_beats;
        new_row <= row_ends;
        state <= last ? IDLE : BETWEEN;
        if (row_ends) begin
          row <= row + ADDRESS_BITS'(stride);
          rows_left <= rows_left - 1'b1;
        end
      end
      default: begin
        if (new_row) begin
          at <= row[ADDRESS_BITS-1:LOG_BEAT];
          to_boundary <= -row[LOG_BEAT+:LOG_BOUNDARY];
          left <= span(row[LOG_BEAT-1:0], bytes);
        end else begin
          at <= at + (ADDRESS_BITS - LOG_BEAT)'(taken);
          to_boundary <= to_boundary - LOG_BOUNDARY'(taken);
          left <= left - BEATS_BITS'(taken);
        end
        state <= ASKING;
      end
    endcase
    if (setup) begin
      row <= address;
      at <= address[ADDRESS_BITS-1:LOG_BEAT];
      to_boundary <= -address[LOG_BEAT+:LOG_BOUNDARY];
      left <= span(address[LOG_BEAT-1:0], row_bytes);
      bytes <= row_bytes;
      stride <= stride_bytes;
      rows_left <= rows;
      held <= delay;
      state <= delay == 0 ? ASKING : HELD;
    end
    if (clear) state <= IDLE;
  end

`ifdef FORMAL_LDS_BURSTS
`include "proofs/lds_bursts.svh"
`endif
endmodule
