// Replaces lds_bursts in proofs of other modules: it has exactly the properties that proofs/lds_bursts.svh proves.
//
// In:   like lds_bursts.
// Out:  any bursts, of 1 to 256 beats. A request is held until it is granted, and is followed by a cycle without one; none follows the last.
// Next: lds_store_stage.svh.
// SPDX-License-Identifier: Apache-2.0
(* blackbox *)
module any_value #(  // chosen by the solver in every cycle
    parameter int BITS = 1
) (
    output logic [BITS-1:0] value
);
endmodule

module lds_bursts #(
    parameter int ROW_BITS = 28,
    parameter int ADDRESS_BITS = 64
) (
    input logic clk,
    input logic clear,
    input logic setup,
    input logic [ADDRESS_BITS-1:0] address,
    input logic [ROW_BITS-1:0] row_bytes,
    input logic [15:0] rows,
    input logic [ROW_BITS-1:0] stride_bytes,
    input logic [3:0] delay,
    output logic request,
    output logic [ADDRESS_BITS-1:0] request_address,
    output logic [8:0] request_beats,
    output logic single,
    output logic last,
    input logic grant
);
  any_value #(.BITS(ADDRESS_BITS + 11)) bursts (.value({request, last, request_address, request_beats}));

  assign single = request_beats == 9'd1;

  reg works = 0, waits = 0, granted = 0, before_last = 0;
  reg [ADDRESS_BITS-1:0] before_address = 0;
  reg [8:0] before_beats = 0;
  always_ff @(posedge clk) begin
    works <= !clear && (setup || (works && !(request && grant && last)));
    waits <= !clear && request && !grant;
    granted <= !clear && request && grant;
    {before_last, before_address, before_beats} <= {last, request_address, request_beats};
  end
  always_comb begin
    if (request) assume (works && !granted && request_beats != 0 && request_beats <= 9'd256);
    if (waits) assume (request && last == before_last && request_address == before_address && request_beats == before_beats);
  end
endmodule
