// A queue of tokens between two stages: a counter.
//
// In:   a push in the last cycle of an instruction, a pop in the first of another.
// Out:  whether there is a token to pop; `overflow` when one is pushed that the queue cannot hold.
// Next: lds_control.sv has four of them; proofs/ proves that none is lost.
// SPDX-License-Identifier: Apache-2.0
module lds_tokens #(
    parameter int MOST = 255
) (
    input logic clk,
    input logic clear,
    input logic push,
    input logic pop,
    output logic some,
    output logic overflow
);
  logic [$clog2(MOST+1)-1:0] count;

  assign overflow = push && !pop && 32'(count) == MOST;
  always_ff @(posedge clk) begin
    if (clear) begin
      count <= 0;
      some <= 1'b0;
    end else if (push && !pop && !overflow) begin
      count <= count + 1'b1;
      some <= 1'b1;
    end else if (pop && !push) begin
      count <= count - 1'b1;
      some <= 32'(count) != 1;  // computed ahead, because every start depends on it
    end
  end

`ifdef FORMAL
`include "proofs/lds_tokens.svh"
`endif
endmodule
