// The life of a program: launch, run, end; and the reason for its end.
//
// In:   START, ABORT and SOFT_RESET; FINISH; errors; whether bursts are in flight on the bus.
// Out:  `clear` and then `launch` for all other modules; `enable` while the program runs; the state and the ERROR registers.
// Next: lds_registers.sv makes them readable.
//
// Before a program ends, for whatever reason, its bursts are completed, so that the bus remains in a valid state.
// SPDX-License-Identifier: Apache-2.0
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_control #(
    parameter int ERRORS = 5,  // the first one is reported
    parameter int QUIET = 15  // cycles without progress after which a deadlock is reported
) (
    input logic clk,
    input logic rst,
    input logic start,
    input logic abort,
    input logic soft_reset,
    input logic finish,
    input error_t [ERRORS-1:0] errors,
    input logic [31:0] progress,  // instructions completed
    input logic blocked,  // no stage runs, none can start, and fetch delivers nothing
    input logic [31:0] blocked_index,
    input logic bus_idle,
    output logic clear,
    output logic launch,
    output logic enable,
    output logic halt,
    output logic [2:0] state,
    output logic ended,  // the program is over, in this cycle
    output logic [3:0] error,
    output logic [31:0] error_pc,
    output logic [31:0] error_address,
    output logic [63:0] cycles
);
  typedef enum logic [2:0] {REST, CLEAR, LAUNCH, RUN, STOPPING, STOPPED} phase_t;
  phase_t phase;
  logic reset_wanted;
  logic [3:0] quiet;
  logic finished;  // in the cycle before: an error of that cycle may come now

  error_t failed, found;
  always_comb begin
    failed = '0;
    for (int e = ERRORS - 1; e >= 0; e--) if (errors[e].valid) failed = errors[e];
    found = failed;
    if (!found.valid && 32'(quiet) == QUIET) found = '{valid: 1'b1, code: ERROR_DEADLOCK, index: blocked_index, address: 32'd0};
    if (!found.valid && abort) found = '{valid: 1'b1, code: ERROR_ABORTED, index: progress, address: 32'd0};
  end

  assign clear = rst || phase == CLEAR || phase == STOPPED;
  assign launch = phase == LAUNCH;
  assign enable = phase == RUN;
  assign halt = phase == STOPPING || phase == STOPPED;
  assign ended = phase == STOPPED;

  always_ff @(posedge clk) begin
    finished <= phase == RUN && finish;
    case (phase)
      REST:
      if (soft_reset) phase <= STOPPED;
      else if (start) begin
        phase <= CLEAR;
        state <= STATE_RUNNING;
        error <= ERROR_NONE;
        error_pc <= 32'd0;
        error_address <= 32'd0;
        quiet <= 4'd0;
      end
      CLEAR: phase <= LAUNCH;
      LAUNCH: begin
        phase <= RUN;
        cycles <= 64'd1;
      end
      RUN: begin
        if (found.valid) begin
          error <= found.code;
          error_pc <= found.index;
          error_address <= found.address;
        end
        if (found.valid || finish || soft_reset) phase <= STOPPING;
        else cycles <= cycles + 64'd1;
        quiet <= blocked && !found.valid ? quiet + 4'd1 : 4'd0;
      end
      STOPPING: begin
        if (bus_idle && !finished) phase <= STOPPED;
        if (finished && failed.valid && error == ERROR_NONE) begin
          error <= failed.code;
          error_pc <= failed.index;
          error_address <= failed.address;
        end
      end
      default: begin
        phase <= REST;
        state <= reset_wanted ? STATE_IDLE : error == ERROR_NONE ? STATE_DONE : STATE_ERROR;
        if (reset_wanted) begin
          error <= ERROR_NONE;
          error_pc <= 32'd0;
          error_address <= 32'd0;
        end
        reset_wanted <= 1'b0;
      end
    endcase
    if (soft_reset) reset_wanted <= 1'b1;
    if (rst) begin
      phase <= REST;
      state <= STATE_IDLE;
      error <= ERROR_NONE;
      error_pc <= 32'd0;
      error_address <= 32'd0;
      reset_wanted <= 1'b0;
      cycles <= 64'd0;
      quiet <= 4'd0;
    end
  end
endmodule
