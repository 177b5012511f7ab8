// One lane of the ALU's operations of a single cycle: MIN, MAX, ADD, SHR.
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
  wire [31:0] left = -b;
  wire signed [31:0] right = a >>> b[4:0];  // not inside ?:, where an unsigned branch would make the shift unsigned

  always_comb
    case (operation)
      ALU_MIN: result = a < b ? a : b;
      ALU_MAX: result = a > b ? a : b;
      ALU_SHR:
      if (b[31]) result = left > 32'd31 ? 32'd0 : a << left[4:0];
      else result = b > 32'sd31 ? {32{a[31]}} : right;
      default: result = a + b;
    endcase
endmodule
