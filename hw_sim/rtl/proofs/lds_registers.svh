// Proof, inside lds_registers: every access over AXI4-Lite gets one response, which is held until it is accepted; an access that can be
// accepted is, a write in the next cycle; the parameters of a program do not change while it runs.
//
// In:   any accesses, any state of the program.
// Out:  assertions, proved by induction.
// Next: tests/vta/simulator/test_rtl_proofs.py.
// SPDX-License-Identifier: Apache-2.0
reg started = 0, owed_write = 0, owed_read = 0;
reg before_ask = 0;  // a write waits that can be accepted
reg before_write = 0, before_read = 0, before_running = 0;
reg [31:0] before_data = 0;
reg [63:0] before_address = 0;
reg [31:0] before_count = 0;
region_t before_region = 0;  // of one region: all are alike

always_ff @(posedge clk) begin
  started <= 1;
  owed_write <= !rst && (write || (owed_write && !bready));
  owed_read <= !rst && ((arvalid && arready) || (owed_read && !rready));
  before_write <= started && !rst && bvalid && !bready;
  before_read <= started && !rst && rvalid && !rready;
  before_ask <= started && !rst && awvalid && wvalid && !awready && !bvalid;
  before_data <= rdata;
  before_running <= started && !rst && running && !ended;
  before_address <= stream_address;
  before_count <= stream_count;
  before_region <= regions[5];
end
always_comb begin
  if (!started) assume (rst);
  if (started) begin
    assert (bvalid == owed_write && rvalid == owed_read);
    if (owed_write) assert (!awready && !wready);
    if (owed_read) assert (!arready);
    if (before_write) assert (bvalid);
    if (before_read) assert (rvalid && rdata == before_data);
    assert (awready == wready);
    if (before_ask) assert (awready);
    if (!owed_read) assert (arready);
    if (before_running) assert (stream_address == before_address && stream_count == before_count && regions[5] == before_region);
  end
end
