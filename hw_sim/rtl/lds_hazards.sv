// Whether the step that reads ACC in this cycle must wait: RQ and MUL have a latency, and the result of one may not be written yet.
//
// In:   the step, with comparisons of its tiles made a cycle earlier; the steps inside the slow lanes.
// Out:  `waits`; for RQ, whether a new operand tile is read in this cycle, and which of the three.
// Next: lds_execute.sv. Steps of one cycle need no wait: their results are forwarded.
//
// RQ keeps its operand tiles (bias, multiplier, shift) while src is constant, and reads them again when src changes or a step writes one.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_types_pkg::*;
module lds_hazards #(
    parameter int SLOW = 12
) (
    input logic clk,
    input logic clear,  // between instructions
    input logic valid,
    input logic is_rq,
    input logic is_mul,
    input logic is_tensor,
    input logic [LA-1:0] dst,
    input logic [LA-1:0] src,
    input logic [LA-1:0] src_1,  // the two tiles after it
    input logic [LA-1:0] src_2,
    input logic is_near,  // dst is one of the three
    input logic [SLOW:0] slow_valid,
    input logic [SLOW:0][LA-1:0] slow_dst,
    input logic hold,  // for any reason: the step does not advance
    output logic waits,
    output logic reload,  // RQ's operands are not those of src
    output logic [1:0] operand
);
  logic kept;
  logic [LA-1:0] kept_src;

  assign reload = valid && is_rq && !(kept && kept_src == src);
  logic operands_come, tiles_come;  // in parallel with `reload`
  always_comb begin
    operands_come = 1'b0;
    tiles_come = 1'b0;
    for (int k = 0; k <= SLOW; k++)
      if (slow_valid[k]) begin
        if (slow_dst[k] == src || slow_dst[k] == src_1 || slow_dst[k] == src_2) operands_come = 1'b1;
        if (slow_dst[k] == dst || (is_tensor && slow_dst[k] == src)) tiles_come = 1'b1;
      end
  end
  assign waits = valid && (is_rq || is_mul) && operand == 0 && (reload ? operands_come : tiles_come);

  always_ff @(posedge clk) begin
    if (reload && !waits) begin
      operand <= operand == 2'd2 ? 2'd0 : operand + 2'd1;
      if (operand == 2'd2) begin
        kept <= 1'b1;
        kept_src <= src;
      end
    end
    if (valid && !hold && is_rq && is_near) kept <= 1'b0;
    if (clear) begin
      kept <= 1'b0;
      operand <= 2'd0;
    end
  end
endmodule
