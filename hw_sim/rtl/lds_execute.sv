// What the steps of GEMM and ALU do to the accumulators: read, compute, write.
//
//   F2 the step's tiles are known -> T3, T4 INP and WGT are read -> P5 products; ACC is read -> X6 the operation -> W7 the write
//                                                                                 `-> 12 cycles of lds_rq_lane.sv -> W
//
// In:   the instruction, its steps; the multipliers' sums; the registers that CONFIG set.
// Out:  the tile that is written to ACC; `hold`: the loops stand still.
// Next: lds_compute_stage.sv.
//
// A step sees what the steps before it wrote: a result of one cycle is handed on from W and from the cycle behind it.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_execute #(
    parameter int SLOW = 12,
    parameter int READ_PORTS = 2
) (
    input logic clk,
    input logic clear,
    input logic between,  // no GEMM or ALU runs
    input logic [127:0] insn,
    input logic valid,
    input logic [LA-1:0] dst,
    input logic [LA-1:0] src,
    output logic hold,
    input logic [ACC_BITS-1:0] sums,
    input logic [31:0] zero_point,
    input logic [31:0] low,
    input logic [31:0] high,
    input logic [1:0] rounding,
    output logic [LA-1:0] read_a,
    input logic [ACC_BITS-1:0] data_a,
    output logic [LA-1:0] read_b,
    input logic [ACC_BITS-1:0] data_b,
    output logic write,
    output logic [LA-1:0] write_at,
    output logic [ACC_BITS-1:0] write_data
);
  wire is_gemm = insn[OPCODE_AT+:3] == OPCODE_GEMM;
  wire [2:0] operation = insn[ALU_ALU_OP_AT+:3];
  wire is_rq = !is_gemm && operation == ALU_RQ;
  wire is_mul = !is_gemm && operation == ALU_MUL;
  wire is_slow = is_rq || is_mul;
  wire use_imm = insn[ALU_USE_IMM_AT];
  wire is_tensor = !is_gemm && !is_rq && !use_imm;
  wire [31:0] imm = {{16{insn[ALU_IMM_AT+15]}}, insn[ALU_IMM_AT+:16]};

  // --- T3, T4, P5 ---------------------------------------------------------------------------------------
  logic valid_3, valid_4, valid_5;
  logic [LA-1:0] dst_3, dst_4, dst_5, src_3, src_4, src_5;
  always_ff @(posedge clk) begin
    if (!hold) begin
      {valid_3, dst_3, src_3} <= {valid, dst, src};
      {valid_4, dst_4, src_4} <= {valid_3, dst_3, src_3};
      {valid_5, dst_5, src_5} <= {valid_4, dst_4, src_4};
    end
    if (clear) {valid_3, valid_4, valid_5} <= '0;
  end

  // --- P5: ACC is read ------------------------------------------------------------------------------------
  logic valid_6;
  logic [LA-1:0] dst_6, src_6;
  logic [SLOW-1:0] lane_valid;  // by stage of the slow lanes
  logic [SLOW-1:0][LA-1:0] lane_dst;
  wire [SLOW:0] slow_valid = {lane_valid, valid_6 && is_slow};  // 0: X6
  wire [SLOW:0][LA-1:0] slow_dst = {lane_dst, dst_6};
  logic waits, reload, dst_turn;
  logic [1:0] operand;
  lds_hazards #(.SLOW(SLOW)) hazards (
      .clk, .clear(between), .valid(valid_5), .is_rq, .is_mul, .is_tensor, .dst(dst_5), .src(src_5), .slow_valid, .slow_dst, .hold, .waits,
      .reload, .operand
  );
  // With one read port a tensor operand is read first, then dst.
  wire src_turn = READ_PORTS == 1 && valid_5 && is_tensor && !dst_turn;
  assign hold = waits || reload || src_turn;
  assign read_b = src_5 + LA'(operand);
  assign read_a = READ_PORTS == 1 && (reload || src_turn) ? read_b : dst_5;

  logic [ACC_BITS-1:0] bias, multiplier, shift, src_first;
  logic [2:0] reads;  // the operand tile that was read in the cycle before
  always_ff @(posedge clk) begin
    reads <= reload && !waits ? 3'b001 << operand : 3'b000;
    if (reads[0]) bias <= data_b;
    if (reads[1]) multiplier <= data_b;
    if (reads[2]) shift <= data_b;
    dst_turn <= src_turn && !waits && !clear && !between;
    src_first <= write && write_at == src_5 ? write_data : data_b;
  end

  // --- X6 -----------------------------------------------------------------------------------------------------
  logic fast_7, behind_valid;
  logic [LA-1:0] dst_7, behind_dst;
  logic [ACC_BITS-1:0] fast, data_7, behind_data, slow;
  wire [ACC_BITS-1:0] a = write && write_at == dst_6 ? write_data : behind_valid && behind_dst == dst_6 ? behind_data : data_a;
  wire [ACC_BITS-1:0] b = READ_PORTS == 1 ? src_first :
      write && write_at == src_6 ? write_data : behind_valid && behind_dst == src_6 ? behind_data : data_b;

  for (genvar n = 0; n < LANES; n++) begin : g_lane
    wire [31:0] other = use_imm ? imm : b[32*n+:32];
    logic [31:0] alu;
    lds_alu_lane alu_lane (.operation, .a(a[32*n+:32]), .b(other), .result(alu));
    wire [31:0] base = insn[GEMM_OVERWRITE_AT] ? 32'd0 : a[32*n+:32];
    assign fast[32*n+:32] = !is_gemm ? alu : insn[GEMM_RESET_AT] ? 32'd0 : base + sums[32*n+:32];
    if (CAN_REQUANTIZE || CAN_ALU_MUL) begin : g_slow
      lds_rq_lane rq_lane (
          .clk, .is_mul, .rounding, .acc(data_a[32*n+:32]), .bias(bias[32*n+:32]), .multiplier(is_mul ? other : multiplier[32*n+:32]),
          .shift(shift[32*n+:32]), .zero_point, .low, .high, .result(slow[32*n+:32])
      );
    end else begin : g_none
      assign slow[32*n+:32] = 32'd0;
    end
  end

  // --- W7 -------------------------------------------------------------------------------------------------------
  assign write = fast_7 || slow_valid[SLOW];
  assign write_at = fast_7 ? dst_7 : slow_dst[SLOW];
  assign write_data = fast_7 ? data_7 : slow;
  always_ff @(posedge clk) begin
    valid_6 <= valid_5 && !hold;
    {dst_6, src_6} <= {dst_5, src_5};
    fast_7 <= valid_6 && !is_slow;
    {dst_7, data_7} <= {dst_6, fast};
    {behind_valid, behind_dst, behind_data} <= {write, write_at, write_data};
    lane_valid <= slow_valid[SLOW-1:0];
    lane_dst <= slow_dst[SLOW-1:0];
    if (clear) begin
      valid_6 <= 1'b0;
      fast_7 <= 1'b0;
      lane_valid <= '0;
    end
  end
endmodule
