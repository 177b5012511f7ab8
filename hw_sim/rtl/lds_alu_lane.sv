// One lane of the operations of a single cycle: the ALU's MIN, MAX, ADD, SHR; GEMM's sum is an ADD.
//
// In:   the accumulator and the other operand, late in their cycle; the operation, constant during an instruction.
// Out:  the result, in the next cycle, the last levels of logic behind the register.
// Next: lds_execute.sv. lds_rq_lane.sv executes MUL and RQ.
// SPDX-License-Identifier: Apache-2.0
import lds_isa_pkg::*;
module lds_alu_lane (
    input logic clk,
    input logic [2:0] operation,
    input logic signed [31:0] a,
    input logic signed [31:0] b,
    output logic [31:0] result
);
  // One shifter for both directions: a shift by n to the left is one by 32 - n to the right, from 32 places further left.
  wire [62:0] wide = b[31] ? {a[30:0], 32'd0} : {{31{a[31]}}, a};

  logic [31:0] sum, kept_a, kept_b;
  logic less, fill;
  logic [8:0] far;  // one bit is enough: 32 places or more, of which -32 is left to the shifter
  logic [46:0] shifted;  // by 0 or 16
  logic [3:0] places;  // still to be shifted
  always_ff @(posedge clk) begin
    sum <= a + b;
    kept_a <= a;
    kept_b <= b;
    less <= a < b;
    for (int n = 0; n < 9; n++) far[n] <= b[5+3*n+:3] != {3{b[31]}};
    fill <= a[31] && !b[31];
    shifted <= 47'(b[4] ? wide >> 16 : wide);
    places <= b[3:0];
  end

  wire [46:0] moved = shifted >> places;
  always_comb
    case (operation)
      ALU_MIN: result = less ? kept_a : kept_b;
      ALU_MAX: result = less ? kept_b : kept_a;
      ALU_SHR: result = far != 0 ? {32{fill}} : moved[31:0];
      default: result = sum;
    endcase
endmodule
