// Proof, inside lds_load_check: all rows of an accepted access lie in its region, and no accepted store writes a read-only region; those
// of an accepted STORE to INP lie in INP.
//
// In:   any instruction of three rows at most (products of wide numbers are beyond a solver); any regions.
// Out:  assertions.
// Next: tests/vta/simulator/test_rtl_proofs.py.
// SPDX-License-Identifier: Apache-2.0
reg started = 0, let_through = 0;
reg [127:0] checked;
reg [63:0] checked_address;
region_t checked_region;
wire [2:0] checked_id = checked[MEMORY_MEMORY_ID_AT+:3];
wire [2:0] checked_memory = WRITES && !(CAN_STORE_ACC && checked_id == MEMORY_ACC) ? MEMORY_OUT : checked_id;
wire [15:0] checked_rows = checked[MEMORY_Y_SIZE_AT+:16];
wire [17:0] stride = 18'(checked[MEMORY_X_STRIDE_AT+:16]);
wire [33:0] rows_reach = checked_rows == 0 ? 34'd0 : 34'(checked[MEMORY_X_SIZE_AT+:16]) +
    34'(checked_rows == 3 ? stride << 1 : checked_rows == 2 ? stride : 18'd0);
wire [65:0] checked_end = 66'(checked_address) + (66'(rows_reach) << tile_log2(checked_memory));
wire [65:0] region_end = 66'(checked_region.base) + 66'(checked_region.limit[62:0]);

reg [127:0] head_before;
always_ff @(posedge clk) begin
  started <= 1;
  head_before <= head;
  let_through <= started && begins;
  checked <= insn;
  checked_address <= address;
  checked_region <= region;
end
always_comb begin
  assume (!started || !begins || insn == head_before);  // lds_stage_queue keeps what starts
  assume (y_size < 4);
end
always_comb
  if (started && let_through && error == ERROR_NONE) begin
    if (WRITES && CAN_STORE_INP && checked[MEMORY_MEMORY_ID_AT+:3] == MEMORY_INP)
      assert (34'(checked[MEMORY_DRAM_BASE_AT+:32]) + rows_reach <= 34'(1 << LI));
    else assert (checked_end < (66'd1 << 64));
    if (CAN_REGIONS && !(WRITES && CAN_STORE_INP && checked[MEMORY_MEMORY_ID_AT+:3] == MEMORY_INP)) begin
      assert (checked_address >= checked_region.base);
      assert (checked_end <= region_end);
      assert (!WRITES || !checked_region.limit[63]);
    end
  end
