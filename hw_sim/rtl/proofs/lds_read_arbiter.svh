// Proof, inside lds_read_arbiter: every beat goes to the reader that requested its burst; AXI's address is held until it is accepted;
// there are never more bursts in flight than there is room for; a single request is granted if there is room.
//
// In:   any requests; a memory that sends beats of requested bursts, and nothing else.
// Out:  assertions, proved by induction. They follow one burst, which the solver chooses.
// Next: tests/vta/simulator/test_rtl_proofs.py.
// SPDX-License-Identifier: Apache-2.0
reg started = 0;
(* anyseq *) wire watch_now;
reg watched = 0;
reg [1:0] watched_who;
reg [LOG:0] ahead;  // bursts in front of the watched one
wire [LOG-1:0] watched_at = oldest + LOG'(ahead);
wire [ADDRESS_BITS+1:0] watched_order = order[watched_at];

always @(posedge clk) begin
  started <= 1;
  if (clear) watched <= 0;
  else if (watched && back && ahead == under_way - 1'b1) watched <= 0;
  else if (!watched && watch_now && grant != 0) begin
    watched <= 1;
    watched_who <= who;
    ahead <= under_way - (LOG + 1)'(ends);
  end else if (watched && ends) begin
    if (ahead == 0) watched <= 0;
    else ahead <= ahead - 1'b1;
  end
end

always @* begin
  if (!started) assume (clear);
  assume (!rvalid || under_way > (LOG + 1)'(asked));  // a memory responds only to requests that it has accepted
end
always @(posedge clk)
  if (started && !clear) begin
    assert (under_way <= READS);
    assert (!asked || under_way != 0);
    assert (granted == 0 || asked);
    assert (granted == 0 || granted == 1 || granted == 2 || granted == 4);
    if (back) assert (!arvalid && grant == 0);
    assert (LOG'(newest - oldest) == LOG'(under_way));
    assert (grant == 0 || grant == 1 || grant == 2 || grant == 4);
    assert ((grant & ~request) == 0);
    if (watched) begin
      assert (ahead < under_way);
      assert (watched_order[ADDRESS_BITS+:2] == watched_who);
      assert (watched_who <= 2);
      if (ahead == 0 && rvalid) assert (beat == (3'b001 << watched_who));
    end
    if (request == 3'b100 && open) assert (grant == 3'b100);
  end
reg past_valid = 0, past_waits = 0;
reg [ADDRESS_BITS-1:0] past_address;
reg [7:0] past_length;
always @(posedge clk) begin
  past_valid <= started && !clear;
  past_waits <= arvalid && !arready;
  past_address <= araddr;
  past_length <= arlen;
  if (past_valid && past_waits) assert (arvalid && araddr == past_address && arlen == past_length);
end
