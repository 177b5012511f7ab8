// One lane of the operations of a single cycle: the ALU's MIN, MAX, ADD, SHR; GEMM's sum is an ADD.
//
// In:   the accumulator and the other operand.
// Out:  the result, in the same cycle.
// Next: lds_execute.sv. MUL and RQ are lds_rq_lane.sv's.
// SPDX-License-Identifier: Apache-2.0
import lds_isa_pkg::*;
module lds_alu_lane (
    input logic [2:0] operation,
    input logic signed [31:0] a,
    input logic signed [31:0] b,
    output logic [31:0] result
);
  // One shifter for both sides: by -b to the left is by 32 - (-b) to the right from 32 places further left.
  wire less = a < b;
  wire far = b[31:5] != {27{b[31]}};  // 32 places or more, of which -32 is left to the shifter
  wire fill = a[31] && !b[31];
  wire [62:0] shifted = (b[31] ? {a[30:0], 32'd0} : {{31{a[31]}}, a}) >> b[4:0];

  always_comb
    case (operation)
      ALU_MIN: result = less ? a : b;
      ALU_MAX: result = less ? b : a;
      ALU_SHR: result = far ? {32{fill}} : shifted[31:0];
      default: result = a + b;
    endcase
endmodule
