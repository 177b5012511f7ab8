// Proof, inside lds_bursts: no burst lies outside the requested rows, crosses a boundary or is too long; the last one ends with the last
// row; a request does not change until it is granted.
//
// In:   any rows, three at most (products of wide numbers are beyond a solver), whose bytes all have an address; grants of pending
//       requests.
// Out:  assertions, proved by induction.
// Next: tests/vta/simulator/test_rtl_proofs.py, with short addresses. lds_load_check.svh proves that the rows lie in the region.
// SPDX-License-Identifier: Apache-2.0
localparam int WIDE = ADDRESS_BITS + 2, WIDEST = ADDRESS_BITS + ROW_BITS + 5;
reg started = 0;
reg [ADDRESS_BITS-1:0] lowest = 0;  // the first byte
reg [WIDE-1:0] highest = 0;  // the byte past the last row
reg [WIDE-1:0] reach = 0;  // bytes from the row `row` to the last one
reg before_waits = 0;
reg [ADDRESS_BITS-1:0] before_address = 0;
reg [8:0] before_beats = 0;

wire [WIDE-1:0] whole_reach = (WIDE'(rows) - WIDE'(1)) * WIDE'(stride_bytes);
wire [WIDE-1:0] past = WIDE'(address) + whole_reach + WIDE'(row_bytes);
wire [WIDEST-1:0] past_exactly = WIDEST'(address) + (WIDEST'(rows) - WIDEST'(1)) * WIDEST'(stride_bytes) + WIDEST'(row_bytes);
wire [WIDE-1:0] row_end = WIDE'(row) + WIDE'(bytes);
wire [WIDE-1:0] row_end_beat = (row_end + WIDE'(BUS_BYTES - 1)) >> LOG_BEAT;
wire [WIDE-1:0] request_end = WIDE'(request_address) + (WIDE'(request_beats) << LOG_BEAT);
wire inside_row = state == HELD || state == ASKING;
wire goes_on = state == BETWEEN && !new_row;  // the row continues after the request

always_ff @(posedge clk) begin
  started <= 1;
  if (setup) begin
    lowest <= address;
    highest <= past;
    reach <= whole_reach;
  end else if (state == ASKING && grant && row_ends) reach <= reach - WIDE'(stride);
  before_waits <= started && !clear && request && !grant;
  before_address <= request_address;
  before_beats <= request_beats;
end

always_comb begin
  if (!started) assume (clear);
  if (setup) assume (state == IDLE && rows != 0 && rows < 4 && row_bytes != 0);
  if (setup) assume (past_exactly < WIDEST'(1 << ADDRESS_BITS) - WIDEST'(BUS_BYTES));
  if (grant) assume (request);

  if (started && before_waits) assert (request && request_address == before_address && request_beats == before_beats);
  if (started && state != IDLE) begin
    // what is left
    assert (rows_left != 0 && rows_left < 4 && bytes != 0);
    assert (reach == (WIDE'(rows_left) - WIDE'(1)) * WIDE'(stride));
    assert (row >= lowest && row_end + reach == highest && reach <= highest);
    assert (highest < WIDE'(1 << ADDRESS_BITS) - WIDE'(BUS_BYTES));
    if (state == HELD) assert (held != 0);
    if (inside_row || goes_on) assert (to_boundary == -at[LOG_BOUNDARY-1:0]);
    if (inside_row) begin
      assert (left != 0 && WIDE'(at) + WIDE'(left) == row_end_beat);
      assert (at >= row[ADDRESS_BITS-1:LOG_BEAT]);
    end
    if (goes_on) begin
      assert (WIDE'(left) > WIDE'(taken) && WIDE'(at) + WIDE'(left) == row_end_beat);
      assert (at >= row[ADDRESS_BITS-1:LOG_BEAT]);
    end
    // what is asked for
    if (request) begin
      assert (request_beats != 0 && 32'(request_beats) <= BURST_MAX_BEATS && single == (request_beats == 1));
      assert (request_address >= {lowest[ADDRESS_BITS-1:LOG_BEAT], {LOG_BEAT{1'b0}}});
      assert (request_end <= highest + WIDE'(BUS_BYTES - 1));
      assert (32'(request_address[LOG_BOUNDARY+LOG_BEAT-1:0]) + (32'(request_beats) << LOG_BEAT) <= BURST_BOUNDARY_BYTES);
      if (last) assert (request_end == row_end_beat << LOG_BEAT && reach == 0);
    end
  end
end
