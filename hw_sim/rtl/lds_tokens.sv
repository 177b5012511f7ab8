// A queue of tokens between two stages: only how many there are matters.
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

  assign some = count != 0;
  assign overflow = push && 32'(count) == MOST;
  always_ff @(posedge clk) begin
    if (clear) count <= 0;
    else if (push && !pop && !overflow) count <= count + 1'b1;
    else if (pop && !push) count <= count - 1'b1;
  end
endmodule
