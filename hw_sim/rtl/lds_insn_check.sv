// Whether the device has an instruction, and which stage executes it.
//
// In:   the 128 bits of an instruction.
// Out:  its stage; `refused` for an opcode, value, reserved bit or capability that the device lacks: compute then reports the error.
// Next: lds_fetch.sv. The rules are those of hw_sim/program.cc.
// SPDX-License-Identifier: Apache-2.0
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_insn_check (
    input logic [127:0] insn,
    output logic [1:0] wanted_stage,
    output logic refused
);
  localparam logic [127:0] MEMORY_PADS = 128'hFFFF << MEMORY_Y_PAD_0_AT;
  localparam logic [127:0] COMMON_BITS = (128'd1 << MEMORY_MEMORY_ID_AT) - 128'd1;

  wire [2:0] opcode = insn[OPCODE_AT+:OPCODE_BITS];
  wire [2:0] memory = insn[MEMORY_MEMORY_ID_AT+:MEMORY_MEMORY_ID_BITS];
  wire noop = insn[MEMORY_X_SIZE_AT+:MEMORY_X_SIZE_BITS] == 0;
  wire has_region = insn[MEMORY_REGION_AT+:MEMORY_REGION_BITS] != 0;
  wire has_pads = (insn & MEMORY_PADS) != 0, has_stride = insn[MEMORY_X_STRIDE_AT+:MEMORY_X_STRIDE_BITS] != 0;
  wire to_inp = CAN_STORE_INP && memory == MEMORY_INP;  // of a STORE
  wire whole = CAN_STORE_ACC && memory == MEMORY_ACC;
  wire has_operands = insn[STORE_OPERANDS_AT+:STORE_OPERANDS_BITS] != 0 || insn[STORE_OPERAND_STEP_AT];
  wire [1:0] more_rows = insn[DEPTHWISE_ROWS_AT+:2] - 2'd1, more_columns = insn[DEPTHWISE_COLUMNS_AT+:2] - 2'd1;  // than one
  wire [2:0] operation = insn[ALU_ALU_OP_AT+:ALU_ALU_OP_BITS];
  wire [2:0] config_stage = insn[CONFIG_STAGE_AT+:CONFIG_STAGE_BITS];
  wire [5:0] register_id = insn[CONFIG_REGISTER_ID_AT+:CONFIG_REGISTER_ID_BITS];

  logic [127:0] known;
  logic bad;
  logic [2:0] wanted;
  always_comb begin
    known = COMMON_BITS;
    bad = 1'b0;
    wanted = STAGE_COMPUTE;
    case (opcode)
      OPCODE_LOAD: begin
        known = COMMON_BITS | MEMORY_OWN_BITS;
        if (memory == MEMORY_INP || memory == MEMORY_WGT || memory == MEMORY_WGT_4BIT || memory == MEMORY_WGT_PLANES) wanted = STAGE_LOAD;
        bad = (memory == MEMORY_OUT && !noop) || (memory == MEMORY_ACC_8BIT && !CAN_LOAD_ACC8) ||
              (memory == MEMORY_WGT_4BIT && (!CAN_WEIGHTS4 || has_pads)) ||
              (memory == MEMORY_WGT_PLANES && (!CAN_WEIGHT_CODE || has_pads || has_stride)) || (has_region && !CAN_REGIONS);
      end
      OPCODE_STORE: begin
        known = COMMON_BITS | STORE_OWN_BITS;
        wanted = STAGE_STORE;
        bad = (!noop && memory != MEMORY_OUT && !(to_inp && !has_region) && !whole) ||
              (insn[STORE_REQUANTIZE_AT] && (!CAN_STORE_REQUANTIZE || (whole && !noop))) ||
              (has_operands && !insn[STORE_REQUANTIZE_AT]) ||
              (memory == MEMORY_ACC_8BIT && !CAN_LOAD_ACC8) || (memory == MEMORY_WGT_4BIT && !CAN_WEIGHTS4) ||
              (memory == MEMORY_WGT_PLANES && !CAN_WEIGHT_CODE) || (has_region && !CAN_REGIONS);
      end
      OPCODE_GEMM: begin
        known = COMMON_BITS | GEMM_OWN_BITS;
        bad = insn[GEMM_OVERWRITE_AT] && !CAN_GEMM_OVERWRITE;
      end
      OPCODE_ALU: begin
        known = COMMON_BITS | ALU_OWN_BITS;
        bad = 32'(operation) >= ALU_VALUES || insn[ALU_RESET_AT] || (operation == ALU_MUL && !CAN_ALU_MUL) ||
              (operation == ALU_RQ && (!CAN_REQUANTIZE || insn[ALU_USE_IMM_AT]));
      end
      OPCODE_DEPTHWISE: begin
        known = COMMON_BITS | DEPTHWISE_OWN_BITS;
        bad = !CAN_DEPTHWISE || (insn[DEPTHWISE_OVERWRITE_AT] && !CAN_GEMM_OVERWRITE) ||
              more_rows > 2'(WINDOW_ROWS - 1) || more_columns > 2'(WINDOW_COLUMNS - 1);
      end
      OPCODE_CONFIG: begin
        known = COMMON_BITS | CONFIG_OWN_BITS;
        wanted = config_stage;
        bad = !CAN_CONFIG || 32'(config_stage) >= STAGE_VALUES || 32'(register_id) >= CONFIG_VALUES ||
              (config_stage == STAGE_STORE && (!CAN_STORE_REQUANTIZE || register_id == CONFIG_PAD_VALUE)) ||
              (config_stage == STAGE_LOAD && register_id != CONFIG_PAD_VALUE) ||
              (register_id == CONFIG_RQ_ROUNDING && insn[CONFIG_VALUE_AT+:32] >= ROUNDING_VALUES);
      end
      OPCODE_FINISH: bad = 1'b0;
      default: bad = 1'b1;
    endcase
    if (wanted == STAGE_LOAD && (insn[POP_PREV_AT] || insn[PUSH_PREV_AT])) bad = 1'b1;
    if (wanted == STAGE_STORE && (insn[POP_NEXT_AT] || insn[PUSH_NEXT_AT])) bad = 1'b1;
  end

  assign refused = bad || (insn & ~known) != 0;
  assign wanted_stage = wanted[1:0];
endmodule
