// Executes the steps of GEMM, DEPTHWISE and ALU on the accumulators: read, compute, write.
//
//   F2 the step's tiles are known -> T3, T4 INP and WGT are read -> P5 products; ACC is read -> X6 the operation -> W7 the write
//                                                                                 `-> 12 cycles of lds_rq_lane.sv -> W
//
// In:   the instruction, its steps; the multipliers' sums; the registers that CONFIG set.
// Out:  the tile that is written to ACC; `hold`: the loops stand still.
// Next: lds_compute_stage.sv.
//
// A step sees the results of the steps before it: those of one cycle are forwarded from W and from the cycle after it.
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
  // Fields of the instruction, two cycles after its start: no step arrives before.
  wire says_gemm = insn[OPCODE_AT+:3] == OPCODE_GEMM || (CAN_DEPTHWISE && insn[OPCODE_AT+:3] == OPCODE_DEPTHWISE);
  wire says_reset = insn[OPCODE_AT+:3] == OPCODE_GEMM && insn[GEMM_RESET_AT];  // DEPTHWISE has another field there
  wire [2:0] says_operation = insn[ALU_ALU_OP_AT+:3];
  wire says_rq = !says_gemm && says_operation == ALU_RQ, says_mul = !says_gemm && says_operation == ALU_MUL;
  logic is_gemm, is_rq, is_mul, is_slow, use_imm, is_tensor;
  logic zero_a, zero_b;  // GEMM is an ADD: to nothing with OVERWRITE, and of nothing as well with RESET
  logic [2:0] operation;
  always_ff @(posedge clk) begin
    is_gemm <= says_gemm;
    is_rq <= says_rq;
    is_mul <= says_mul;
    is_slow <= says_rq || says_mul;
    use_imm <= !says_gemm && insn[ALU_USE_IMM_AT];
    is_tensor <= !says_gemm && !says_rq && !insn[ALU_USE_IMM_AT];
    operation <= says_gemm ? ALU_ADD : says_operation;
    zero_a <= says_gemm && (insn[GEMM_OVERWRITE_AT] || says_reset);
    zero_b <= says_gemm && says_reset;
  end
  wire [31:0] imm = {{16{insn[ALU_IMM_AT+15]}}, insn[ALU_IMM_AT+:16]};

  // --- T3, T4, P5 ---------------------------------------------------------------------------------------
  logic valid_3, valid_4, valid_5;
  logic [LA-1:0] dst_3, dst_4, dst_5, src_3, src_4, src_5;
  logic [LA-1:0] src_5_1, src_5_2;  // the two tiles after it
  logic near_5;  // dst is one of the three
  always_ff @(posedge clk) begin
    if (!hold) begin
      {valid_3, dst_3, src_3} <= {valid, dst, src};
      {valid_4, dst_4, src_4} <= {valid_3, dst_3, src_3};
      {valid_5, dst_5, src_5} <= {valid_4, dst_4, src_4};
      src_5_1 <= src_4 + LA'(1);
      src_5_2 <= src_4 + LA'(2);
      near_5 <= LA'(dst_4 - src_4) < LA'(3);
    end
    if (clear) {valid_3, valid_4, valid_5} <= '0;
  end

  // --- P5: ACC is read ------------------------------------------------------------------------------------
  logic valid_6;
  logic [LA-1:0] dst_6;
  logic [SLOW-1:0] lane_valid;  // by stage of the slow lanes
  logic [SLOW-1:0][LA-1:0] lane_dst;
  wire [SLOW:0] slow_valid = {lane_valid, valid_6 && is_slow};  // 0: X6
  wire [SLOW:0][LA-1:0] slow_dst = {lane_dst, dst_6};
  logic waits, reload, dst_turn;
  logic [1:0] operand;
  lds_hazards #(.SLOW(SLOW)) hazards (
      .clk, .clear(between), .valid(valid_5), .is_rq, .is_mul, .is_tensor, .dst(dst_5), .src(src_5), .src_1(src_5_1), .src_2(src_5_2), .is_near(near_5),
      .slow_valid, .slow_dst, .hold, .waits, .reload, .operand
  );
  // With one read port a tensor operand is read first, then dst.
  wire src_turn = READ_PORTS == 1 && valid_5 && is_tensor && !dst_turn;
  assign hold = waits || reload || src_turn;
  assign read_b = operand == 2'd0 ? src_5 : operand == 2'd1 ? src_5_1 : src_5_2;
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
  logic fast_7;
  logic [LA-1:0] dst_7;
  logic [ACC_BITS-1:0] data_7, behind_data, slow;
  // Whether an operand was written in this cycle or in the one before is computed a cycle earlier, because ACC's data and the result
  // arrive late. Results of the slow lanes are never forwarded: a step waits until they are written.
  wire write_next = valid_6 && !is_slow;
  logic written_a, written_b, other_a, other_b;  // in this cycle; anything but data_a, data_b
  always_ff @(posedge clk) begin
    written_a <= !zero_a && write_next && dst_6 == dst_5;
    written_b <= !is_gemm && !use_imm && READ_PORTS == 2 && write_next && dst_6 == src_5;
    other_a <= zero_a || (fast_7 && dst_7 == dst_5);
    other_b <= is_gemm || use_imm || READ_PORTS == 1 || (fast_7 && dst_7 == src_5);
  end

  for (genvar n = 0; n < LANES; n++) begin : g_lane
    wire [31:0] instead_a = zero_a ? 32'd0 : behind_data[32*n+:32];
    wire [31:0] tensor_b = READ_PORTS == 1 ? src_first[32*n+:32] : behind_data[32*n+:32];
    wire [31:0] instead_b = zero_b ? 32'd0 : is_gemm ? sums[32*n+:32] : use_imm ? imm : tensor_b;
    wire [31:0] read_or_a = other_a ? instead_a : data_a[32*n+:32], read_or_b = other_b ? instead_b : data_b[32*n+:32];
    wire [31:0] a = written_a ? data_7[32*n+:32] : read_or_a, b = written_b ? data_7[32*n+:32] : read_or_b;
    lds_alu_lane alu_lane (.clk, .operation, .a(a), .b(b), .result(data_7[32*n+:32]));
    if (CAN_REQUANTIZE || CAN_ALU_MUL) begin : g_slow
      lds_rq_lane rq_lane (
          .clk, .is_mul, .rounding, .acc(data_a[32*n+:32]), .bias(bias[32*n+:32]), .multiplier(is_mul ? b : multiplier[32*n+:32]),
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
    dst_6 <= dst_5;
    fast_7 <= valid_6 && !is_slow;
    dst_7 <= dst_6;
    behind_data <= data_7;
    lane_valid <= slow_valid[SLOW-1:0];
    lane_dst <= slow_dst[SLOW-1:0];
    if (clear) begin
      valid_6 <= 1'b0;
      fast_7 <= 1'b0;
      lane_valid <= '0;
    end
  end
endmodule
