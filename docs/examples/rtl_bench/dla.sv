// What `loadstone backend new dla --isa` describes, as hardware: one instruction at a time, four bytes of memory a cycle, four products.
//
// In:   a program's address and length; memory behind a port that answers some cycles after a transfer is asked for.
// Out:  results in memory; how many cycles went by.
// Next: bench.sv runs vectors on it; docs/bring-your-own-accelerator.md finds the table's figures with it.
//
// As small as it can be: sizes are multiples of 4, outputs at most 256, rounding is `double`, and no shift is to the left.
// SPDX-License-Identifier: Apache-2.0
module dla (
    input logic clk,
    input logic start,
    input logic [31:0] code_base,
    input logic [31:0] insn_count,
    output logic [31:0] insn_address,  // of the instruction, which a port of its own shows at once
    input logic [167:0] insn,
    output logic ask,  // a transfer begins, at `address`
    output logic [31:0] address,
    input logic beat,  // four bytes of it came, or are taken
    input logic [31:0] data,
    output logic write,
    output logic [31:0] result,
    output logic done,
    output logic [31:0] cycles
);
  localparam logic [7:0] LOAD = 1;
  typedef enum logic [2:0] { IDLE, DECODE, BUFFER, LANES, WEIGHTS, REQUANTIZE, RESULTS } state_t;
  state_t state = IDLE;
  logic [31:0] buffer[256], lane[768], at = 0, left = 0;
  logic signed [31:0] sum[256];
  logic [7:0] y[256];
  logic [15:0] column = 0;
  logic [1:0] step = 0;

  wire [15:0] size = insn[55:40], inputs = insn[119:104], outputs = insn[135:120];
  wire signed [9:0] zero_y = insn[145:136], low = insn[155:146], high = insn[165:156];

  function automatic logic signed [31:0] products(logic [31:0] a, logic [31:0] b);
    products = 0;
    for (int k = 0; k < 4; k++) products += $signed(a[8*k+:8]) * $signed(b[8*k+:8]);
  endfunction

  // To nearest twice, as numerics.py defines `double`: times the multiplier / 2^31, then / 2^shift.
  function automatic logic [7:0] requantized(logic signed [31:0] acc, logic signed [31:0] multiplier, logic [7:0] shift);
    logic signed [63:0] product;
    logic signed [31:0] once, rest, mask;
    product = 64'(acc) * 64'(multiplier);
    product = (product + (product >= 0 ? 64'sd1 <<< 30 : 64'sd1 - (64'sd1 <<< 30))) / (64'sd1 <<< 31);
    once = product[31:0];
    mask = (32'sd1 <<< -shift) - 1;
    rest = once & mask;
    once = (once >>> -shift) + 32'(rest > (mask >>> 1) + 32'(once < 0)) + 32'(zero_y);
    if (once < 32'(low)) once = 32'(low);
    if (once > 32'(high)) once = 32'(high);
    return once[7:0];
  endfunction

  task automatic transfer(state_t next, logic [31:0] first, logic [31:0] bytes, logic writes);
    state <= next;
    ask <= 1;
    address <= first;
    left <= (bytes + 3) / 4;
    at <= 0;
    column <= 0;
    write <= writes;
  endtask

  assign done = state == IDLE;
  assign result = {y[at*4+3], y[at*4+2], y[at*4+1], y[at*4]};

  logic [31:0] number = 0;
  wire last = left == 1;

  task automatic next_insn;
    state <= number + 1 == insn_count ? IDLE : DECODE;
    number <= number + 1;
    insn_address <= insn_address + (insn[7:0] == LOAD ? 8 : 24);
  endtask

  always_ff @(posedge clk) begin
    ask <= 0;
    if (state != IDLE) cycles <= cycles + 1;
    if (beat) begin
      left <= left - 1;
      at <= at + 1;
    end
    case (state)
      IDLE:
      if (start) begin
        state <= DECODE;
        insn_address <= code_base;
        number <= 0;
        cycles <= 0;
      end
      DECODE: begin
        if (insn[7:0] == LOAD) transfer(BUFFER, insn[39:8], 32'(size), 0);
        else transfer(LANES, insn[71:40], 12 * outputs, 0);
      end
      BUFFER:
      if (beat) begin
        buffer[at[7:0]] <= data;
        if (last) next_insn();
      end
      LANES:
      if (beat) begin
        lane[at[9:0]] <= data;
        if (last) transfer(WEIGHTS, insn[39:8], inputs * outputs, 0);
      end
      WEIGHTS:
      if (beat) begin  // at: of the output
        at <= column + 4 == inputs ? at + 1 : at;
        column <= column + 4 == inputs ? 0 : column + 4;
        sum[at[7:0]] <= (column == 0 ? 0 : sum[at[7:0]]) + products(data, buffer[column[9:2]]);
        if (last) begin
          state <= REQUANTIZE;
          at <= 0;
        end
      end
      REQUANTIZE: begin  // three cycles for each output: bias, product, shift
        step <= step == 2 ? 0 : step + 1;
        if (step == 2) begin
          y[at[7:0]] <= requantized(sum[at[7:0]] + lane[at[9:0]], lane[at+outputs], lane[at+2*outputs][7:0]);
          at <= at + 1;
          if (at + 1 == 32'(outputs)) transfer(RESULTS, insn[103:72], 32'(outputs), 1);
        end
      end
      RESULTS: if (beat && last) next_insn();
      default: state <= IDLE;
    endcase
  end
endmodule
