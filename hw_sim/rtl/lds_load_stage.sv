// The load stage: LOADs of INP, WGT, WGT_4BIT and WGT_PLANES, and the value of their padding.
//
// In:   its queue's head; the read channel.
// Out:  writes to the scratchpads; `done` in the last cycle of each instruction.
// Next: lds_device.sv.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_load_stage (
    input logic clk,
    input logic clear,
    input logic start,
    input entry_t head,
    input entry_t running,
    input region_t [MAX_REGIONS-1:0] regions,
    output logic request,
    output logic follow,  // the head may start though a LOAD runs
    output logic refused,
    output logic [63:0] request_address,
    output logic [8:0] request_beats,
    input logic grant,
    input logic beat,
    input logic [BUS_BITS-1:0] beat_data,
    output logic [31:0] beat_index,
    output write_t write,
    output logic [15:0] bytes,
    output logic done,
    output error_t error
);
  logic [7:0] pad_value;
  logic second;  // the second and last cycle of a CONFIG, or of a LOAD without data
  logic loaded;
  wire is_load = head.insn[OPCODE_AT+:3] == OPCODE_LOAD;
  wire moves = is_load && head.insn[MEMORY_X_SIZE_AT+:16] != 0;

  logic requested;
  lds_load_engine #(.LOADS(LOADS_IN_FLIGHT), .PADS(MEMORY_INP), .GROUPS(CAN_WEIGHTS4), .PLANES(CAN_WEIGHT_CODE)) engine (
      .clk, .clear, .begun(start), .start(start && moves), .head, .running, .regions, .pad_value, .request, .refused, .request_address,
      .request_beats, .grant, .beat, .beat_data, .beat_index, .follow(requested), .write, .bytes, .done(loaded), .error
  );
  assign follow = requested && moves && head.insn[MEMORY_Y_SIZE_AT+:16] != 0;

  assign done = loaded || second;
  always_ff @(posedge clk) begin
    second <= start && !moves && !clear;
    if (start && !is_load) pad_value <= head.insn[CONFIG_VALUE_AT+:8];
    if (clear) pad_value <= DEFAULT_PAD_VALUE[7:0];
  end
endmodule
