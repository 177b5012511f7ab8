// Proof, inside lds_store_stage: an address and a word are held until they are accepted; a burst has as many words as its address
// announced, the last one marked; the next one begins when memory has acknowledged it; the stage requests no access that was refused.
//
// In:   any instructions, one at a time; any bursts (lds_bursts_proved.sv); a memory that accepts addresses and words at any time, and
//       acknowledges a burst when it has all of it.
// Out:  assertions, proved by induction.
// Next: tests/vta/simulator/test_rtl_proofs.py.
// SPDX-License-Identifier: Apache-2.0
reg started = 0, works = 0, before_read = 0, before_aw = 0, before_w = 0, before_last = 0, before_asks = 0;
reg [63:0] before_awaddr = 0;
reg [7:0] before_awlen = 0;
reg [BUS_BITS-1:0] before_wdata = 0;
reg [OUT_BITS-1:0] before_out = 0;
entry_t before_running = 0;
region_t [MAX_REGIONS-1:0] before_regions = 0;
always_ff @(posedge clk) begin
  started <= 1;
  works <= !clear && (start || (works && !done));
  before_read <= out_read;
  before_out <= out_data;
  before_running <= running;
  before_regions <= regions;
  before_asks <= started && !clear && asks && !grant;
  before_aw <= started && !clear && awvalid && !awready;
  before_w <= started && !clear && wvalid && !wready;
  {before_awaddr, before_awlen, before_wdata, before_last} <= {awaddr, awlen, wdata, wlast};
end
always_comb begin
  // guarantees of the other modules
  if (!started) assume (clear);
  if (start) assume (!works);  // lds_stage_queue
  if (works && !begins && !second) assume (running == before_running && regions == before_regions);
  if (started && clear) assume (!sends && halt);  // lds_control
  if (!before_read) assume (out_data == before_out);  // lds_ram, of which compute writes no tile that is stored
  if (bvalid) assume (sends && addressed && sent_all);  // memory

  if (started) begin
    assert (!begins || (works && !sends && !second && !bursts.works));
    assert (!second || (works && !sends && !bursts.works));
    assert (!bursts.works || works);
    assert (!moving || (to_inp && works && !begins && !second && !bursts.works));
    assert (before_asks == bursts.waits);
    assert (!sends || (asks && bad == ERROR_NONE));
    assert (sent <= beats || !asks);
    assert (sent_all == (sent == beats) || !asks);
    assert (!before_asks || ahead_of_last == beats - 9'd1);
    assert (sent == 0 || !asks || before_asks);
    assert (sends || !bursts.works || (!addressed && sent == 0 && !sent_all));
    assert (32'(word) < (whole ? ACC_WORDS : INP_WORDS));
    if (before_aw || before_w) assert (before_asks && sends);
    if (before_aw) assert (before_awaddr == bursts.before_address && 9'(before_awlen) + 9'd1 == bursts.before_beats);
    if (before_aw) assert (awvalid && awaddr == before_awaddr && awlen == before_awlen);
    if (before_w) assert (wvalid && wdata == before_wdata && wlast == before_last);
    if (awvalid) assert (!addressed && bad == ERROR_NONE && 9'(awlen) + 9'd1 == beats);
    if (wvalid) assert (sent < beats && wlast == (sent + 9'd1 == beats));
    if (done || failed) assert (!awvalid && !wvalid);
    // A STORE to INP that was accepted, and it alone, writes INP, and requests nothing.
    if (put) assert (to_inp && works && !begins && !bursts.works && bad == ERROR_NONE);
  end
end
