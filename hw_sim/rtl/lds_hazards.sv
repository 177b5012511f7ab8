// Whether the step that reads ACC in this cycle must wait: RQ and MUL take so long that a tile may still be on its way.
//
// In:   the step; the steps inside the slow lanes.
// Out:  `waits`; for RQ, whether a new operand tile is read in this cycle, and which of the three.
// Next: lds_execute.sv. Steps of one cycle need no wait: their results are handed on.
//
// RQ keeps its operand tiles (bias, multiplier, shift) while src stays, and reads them anew when it moves or when a step writes one.
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
    input logic [SLOW:0] slow_valid,
    input logic [SLOW:0][LA-1:0] slow_dst,
    input logic hold,  // for whatever reason: the step stays
    output logic waits,
    output logic reload,  // RQ's operands are not those of src
    output logic [1:0] operand
);
  logic kept;
  logic [LA-1:0] kept_src;

  wire [LA-1:0] src_1 = src + LA'(1), src_2 = src + LA'(2);
  assign reload = valid && is_rq && !(kept && kept_src == src);
  always_comb begin
    waits = 1'b0;
    if (valid && (is_rq || is_mul) && operand == 0)
      for (int k = 0; k <= SLOW; k++)
        if (slow_valid[k]) begin
          if (reload && (slow_dst[k] == src || slow_dst[k] == src_1 || slow_dst[k] == src_2)) waits = 1'b1;
          if (!reload && (slow_dst[k] == dst || (is_tensor && slow_dst[k] == src))) waits = 1'b1;
        end
  end

  always_ff @(posedge clk) begin
    if (reload && !waits) begin
      operand <= operand == 2'd2 ? 2'd0 : operand + 2'd1;
      if (operand == 2'd2) begin
        kept <= 1'b1;
        kept_src <= src;
      end
    end
    if (valid && !hold && is_rq && LA'(dst - src) < LA'(3)) kept <= 1'b0;
    if (clear) begin
      kept <= 1'b0;
      operand <= 2'd0;
    end
  end
endmodule
