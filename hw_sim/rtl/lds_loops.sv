// The loops of GEMM, DEPTHWISE and ALU: for i, for j, for u. Each cycle has one step, with its tiles.
//
// In:   the instruction in the cycle of its start; the micro-op of the cycle before; `hold`, which stops the loops.
// Out:  from the third cycle after the start on, a step: dst, src, wgt; `over` when one of them is beyond its scratchpad;
//       `done` in the last cycle of the instruction.
// Next: lds_execute.sv.
//
//   F0 counts -> F1 the micro-op has been read -> F2 sums.  There is no multiplication: each loop adds its factor in each turn.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_loops #(
    parameter int DRAIN_CYCLES = 6,  // from the last step's F0 to the last cycle
    parameter int SLOW_CYCLES = 11  // more for RQ and MUL
) (
    input logic clk,
    input logic clear,
    input logic start,
    input logic [127:0] head,
    input logic [127:0] insn,
    input logic hold,
    output logic uop_read,
    output logic [UOP_INDEX_BITS-1:0] uop_at,
    input logic [31:0] uop,
    output logic valid,
    output logic [LA-1:0] dst,
    output logic [SRC_BITS-1:0] src,
    output logic [LW-1:0] wgt,
    output logic over,
    output logic done
);
  typedef enum logic [1:0] {IDLE, STEPS, DRAIN} state_t;
  state_t state;

  wire is_window = CAN_DEPTHWISE && insn[OPCODE_AT+:3] == OPCODE_DEPTHWISE;
  wire is_gemm = insn[OPCODE_AT+:3] == OPCODE_GEMM || is_window;
  wire is_rq = !is_gemm && insn[ALU_ALU_OP_AT+:3] == ALU_RQ;
  // DEPTHWISE has fields of GEMM at GEMM's bits, but a shorter inner loop, and its own in the place of wgt_in.
  wire [13:0] iter_in = is_window ? 14'(insn[DEPTHWISE_ITER_IN_AT+:DEPTHWISE_ITER_IN_BITS]) : insn[GEMM_ITER_IN_AT+:14];
  wire reads_src = is_gemm ? is_window || !insn[GEMM_RESET_AT] : !insn[ALU_USE_IMM_AT];

  // --- F0: counters. Those of tiles have one more bit, which stays set once a sum has exceeded the scratchpad. ---
  logic [LU:0] u;
  logic [13:0] i, j;
  logic [LA:0] dst_i, dst_j;
  logic [SRC_BITS:0] src_i, src_j;
  logic [LW:0] wgt_i, wgt_j;
  logic [4:0] drain;

  function automatic logic [LA:0] add_dst(input logic [LA:0] a, input logic [LA-1:0] b);
    logic [LA:0] sum;
    sum = {1'b0, a[LA-1:0]} + {1'b0, b};
    add_dst = {a[LA] | sum[LA], sum[LA-1:0]};
  endfunction
  function automatic logic [SRC_BITS:0] add_src(input logic [SRC_BITS:0] a, input logic [SRC_BITS-1:0] b);
    logic [SRC_BITS:0] sum;
    sum = {1'b0, a[SRC_BITS-1:0]} + {1'b0, b};
    add_src = {a[SRC_BITS] | sum[SRC_BITS], sum[SRC_BITS-1:0]};
  endfunction
  function automatic logic [LW:0] add_wgt(input logic [LW:0] a, input logic [LW-1:0] b);
    logic [LW:0] sum;
    sum = {1'b0, a[LW-1:0]} + {1'b0, b};
    add_wgt = {a[LW] | sum[LW], sum[LW-1:0]};
  endfunction

  wire [SRC_BITS-1:0] src_out = is_gemm ? SRC_BITS'(insn[GEMM_SRC_OUT_AT+:LI]) : SRC_BITS'(insn[ALU_SRC_OUT_AT+:LA]);
  wire [SRC_BITS-1:0] src_in = is_gemm ? SRC_BITS'(insn[GEMM_SRC_IN_AT+:LI]) : SRC_BITS'(insn[ALU_SRC_IN_AT+:LA]);
  wire [LU:0] uop_end = insn[GEMM_UOP_END_AT+:LU+1];
  wire last_u = u + 1'b1 == uop_end, last_j = j + 1'b1 == iter_in, last_i = i + 1'b1 == insn[GEMM_ITER_OUT_AT+:14];

  wire [LU:0] head_bgn = {1'b0, head[GEMM_UOP_BGN_AT+:LU]};
  wire head_window = CAN_DEPTHWISE && head[OPCODE_AT+:3] == OPCODE_DEPTHWISE;
  wire none = head_bgn >= head[GEMM_UOP_END_AT+:LU+1] || head[GEMM_ITER_OUT_AT+:14] == 0 ||
              head[GEMM_ITER_IN_AT+:DEPTHWISE_ITER_IN_BITS] == 0 && (head_window || head[GEMM_ITER_IN_AT+:14] == 0);
  wire head_slow = head[OPCODE_AT+:3] == OPCODE_ALU && (head[ALU_ALU_OP_AT+:3] == ALU_RQ || head[ALU_ALU_OP_AT+:3] == ALU_MUL);

  assign done = state == DRAIN && drain == 0;  // by then the last step has passed the only place where steps wait
  assign uop_read = !hold;
  assign uop_at = UOP_INDEX_BITS'(u);

  always_ff @(posedge clk) begin
    case (state)
      IDLE:
      if (start) begin
        u <= head_bgn;
        i <= 0;
        j <= 0;
        {dst_i, dst_j, src_i, src_j, wgt_i, wgt_j} <= '0;
        drain <= 5'(DRAIN_CYCLES - 1) + (head_slow ? 5'(SLOW_CYCLES) : head_window ? 5'd1 : 5'd0);
        state <= none ? DRAIN : STEPS;
      end
      STEPS:
      if (!hold) begin
        u <= u + 1'b1;
        if (last_u) begin
          u <= {1'b0, insn[GEMM_UOP_BGN_AT+:LU]};
          j <= j + 1'b1;
          dst_j <= add_dst(dst_j, insn[GEMM_DST_IN_AT+:LA]);
          src_j <= add_src(src_j, src_in);
          wgt_j <= add_wgt(wgt_j, is_gemm && !is_window ? insn[GEMM_WGT_IN_AT+:LW] : '0);
          if (last_j) begin
            j <= 0;
            {dst_j, src_j, wgt_j} <= '0;
            i <= i + 1'b1;
            dst_i <= add_dst(dst_i, insn[GEMM_DST_OUT_AT+:LA]);
            src_i <= add_src(src_i, src_out);
            wgt_i <= add_wgt(wgt_i, is_gemm ? insn[GEMM_WGT_OUT_AT+:LW] : '0);
            if (last_i) state <= DRAIN;
          end
        end
      end
      default:
      if (!hold) begin
        drain <= drain - 1'b1;
        if (drain == 0) state <= IDLE;
      end
    endcase
    if (clear) state <= IDLE;
  end

  // --- F1: the sum of both loops. F2: with the micro-op ------------------------------------------------------
  logic valid_1;
  logic [LA:0] dst_1, dst_2;
  logic [SRC_BITS:0] src_1, src_2;
  logic [LW:0] wgt_1, wgt_2;
  logic uop_over;
  always_ff @(posedge clk) begin
    if (!hold) begin
      valid_1 <= state == STEPS;
      dst_1 <= add_dst(dst_i, dst_j[LA-1:0]) | {dst_j[LA], {LA{1'b0}}};
      src_1 <= add_src(src_i, src_j[SRC_BITS-1:0]) | {src_j[SRC_BITS], {SRC_BITS{1'b0}}};
      wgt_1 <= add_wgt(wgt_i, wgt_j[LW-1:0]) | {wgt_j[LW], {LW{1'b0}}};
      valid <= valid_1;
      dst_2 <= add_dst(dst_1, uop[UOP_DST_AT+:LA]);
      src_2 <= add_src(src_1, uop[UOP_SRC_AT+:SRC_BITS]);
      wgt_2 <= add_wgt(wgt_1, uop[UOP_WGT_AT+:LW]);
      uop_over <= 32'(uop_end) > UOP_DEPTH;
    end
    if (clear) begin
      valid_1 <= 1'b0;
      valid <= 1'b0;
    end
  end

  // Fields of the instruction, two cycles after its start: no step arrives before.
  logic step_is_gemm, step_is_rq, step_reads_src;
  logic [LW+2:0] window_reach;  // from a window's first tile to its last
  wire [LW-1:0] row_stride = insn[DEPTHWISE_ROW_STRIDE_AT+:LW];
  wire [1:0] below = insn[DEPTHWISE_ROWS_AT+:2] - 2'd1;  // rows below the first: 2 at most
  wire [LW:0] row_moves = below[1] ? {row_stride, 1'b0} : below[0] ? {1'b0, row_stride} : '0;
  always_ff @(posedge clk) begin
    {step_is_gemm, step_is_rq, step_reads_src} <= {is_gemm, is_rq, reads_src};
    window_reach <= is_window ? (LW + 3)'(row_moves) + (LW + 3)'(insn[DEPTHWISE_COLUMNS_AT+:2]) - (LW + 3)'(1) : '0;
  end

  assign dst = dst_2[LA-1:0];
  assign src = src_2[SRC_BITS-1:0];
  assign wgt = wgt_2[LW-1:0];
  localparam int LAST_BITS = (SRC_BITS > LW ? SRC_BITS : LW) + 4;
  wire [LAST_BITS-1:0] behind = step_is_rq ? LAST_BITS'(2) : CAN_DEPTHWISE ? LAST_BITS'(window_reach) : '0;
  wire [LAST_BITS-1:0] src_last = LAST_BITS'(src_2) + behind;
  wire src_over = src_last >= LAST_BITS'(step_is_gemm ? 1 << LI : 1 << LA);
  assign over = valid && (uop_over || dst_2[LA] || (step_reads_src && (src_over || (step_is_gemm && wgt_2[LW]))));
endmodule
