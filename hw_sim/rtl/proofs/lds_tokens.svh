// Proof, inside lds_tokens: no token is lost or created; a pop of an available token, and a push while there is room, always succeed.
//
// In:   any pushes, and pops of available tokens (lds_stage_queue starts no instruction without its tokens).
// Out:  assertions, proved by induction.
// Next: tests/vta/simulator/test_rtl_proofs.py.
// SPDX-License-Identifier: Apache-2.0
reg started = 0;
reg [15:0] pushed, popped;
always @(posedge clk) begin
  started <= 1;
  pushed <= clear ? 16'd0 : pushed + 16'(push && !overflow);
  popped <= clear ? 16'd0 : popped + 16'(pop);
end
always @* begin
  if (!started) assume (clear);
  assume (!pop || some);
end
always @(posedge clk)
  if (started) begin
    assert (count <= MOST);
    assert (16'(pushed - popped) == 16'(count));
    assert (some == (pushed != popped));
    assert (!overflow || (push && !pop && count == MOST));
  end
