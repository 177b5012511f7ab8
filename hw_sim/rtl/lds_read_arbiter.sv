// The single read channel, in order of priority: fetch, UOP, INP and WGT, ACC.
//
// In:   a request of each reader, held until it is granted; whether the request granted in the cycle before is refused, so that
//       it is never put on the bus; AXI's beats.
// Out:  one grant a cycle; AXI's read requests, all with one ID, so that beats arrive in the order of the requests; the reader of
//       each beat.
// Next: lds_device.sv. proofs/ proves that every beat goes to the reader that requested it.
//
// No request enters in the cycle of a burst's last beat, nor while READS are in flight.
// SPDX-License-Identifier: Apache-2.0
module lds_read_arbiter #(
    parameter int READERS = 3,  // fetch, load, compute
    parameter int READS = 16,
    parameter int ADDRESS_BITS = 64
) (
    input logic clk,
    input logic clear,
    input logic enable,
    input logic [READERS-1:0] request,
    input logic compute_first,  // compute's request is for micro-ops
    input logic [READERS*ADDRESS_BITS-1:0] request_address,  // flat: Debian's yosys, which proves this file, knows no other arrays
    input logic [READERS*9-1:0] request_beats,
    input logic [READERS-1:0] refused,
    output logic [READERS-1:0] grant,
    output logic [READERS-1:0] beat,
    output logic [ADDRESS_BITS-1:0] beat_address,  // the address of the beat's burst
    output logic idle,  // no burst is in flight
    // AXI4
    output logic arvalid,
    input logic arready,
    output logic [ADDRESS_BITS-1:0] araddr,
    output logic [7:0] arlen,
    input logic rvalid,
    input logic rlast
);
  localparam int LOG = $clog2(READS) < 1 ? 1 : $clog2(READS);

  logic [ADDRESS_BITS+1:0] order[1 << LOG];  // the reader, and the address
  logic [LOG-1:0] oldest, newest;
  logic [LOG:0] under_way;
  wire ends = rvalid && rlast;
  logic asked;
  logic [READERS-1:0] granted;
  wire back = (granted & refused) != 0;  // the grant is taken back
  wire open = enable && 32'(under_way) < READS && !ends && !back && (!asked || arready);
  assign arvalid = asked && !back;

  always_comb begin
    grant = '0;
    if (open) begin
      if (request[0]) grant[0] = 1'b1;
      else if (request[2] && (compute_first || !request[1])) grant[2] = 1'b1;
      else if (request[1]) grant[1] = 1'b1;
    end
  end

  wire [1:0] who = grant[2] ? 2'd2 : {1'b0, grant[1]};
  wire [ADDRESS_BITS-1:0] address = request_address[32'(who)*ADDRESS_BITS+:ADDRESS_BITS];
  logic [8:0] beats;  // of the request on the bus
  assign arlen = 8'(beats - 9'd1);
  wire [ADDRESS_BITS+1:0] front = order[oldest];
  assign beat = rvalid ? READERS'(1) << front[ADDRESS_BITS+:2] : '0;
  assign beat_address = front[ADDRESS_BITS-1:0];
  assign idle = under_way == 0 && !asked;

  always_ff @(posedge clk) begin
    if (clear) begin
      oldest <= 0;
      newest <= 0;
      under_way <= 0;
      asked <= 1'b0;
      granted <= '0;
    end else begin
      granted <= grant;
      under_way <= under_way + (LOG + 1)'(grant != 0) - (LOG + 1)'(ends) - (LOG + 1)'(back);
      if (ends) oldest <= oldest + 1'b1;
      if (grant != 0) newest <= newest + 1'b1;
      else if (back) newest <= newest - 1'b1;
      if (grant != 0) asked <= 1'b1;
      else if (arready || back) asked <= 1'b0;
    end
    if (grant != 0) begin
      order[newest] <= {who, address};
      araddr <= address;
      beats <= request_beats[32'(who)*9+:9];
    end
  end

`ifdef FORMAL
`include "proofs/lds_read_arbiter.svh"
`endif
endmodule
