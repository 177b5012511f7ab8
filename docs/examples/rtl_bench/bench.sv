// A test bench that runs one vector of `loadstone vectors --hex`, and says how many cycles it took.
//
// In:   +vector=NAME, without .before.hex; +code=ADDRESS (hexadecimal), +count=INSTRUCTIONS, +latency=CYCLES.
// Out:  "cycles N", or "WRONG" with the first byte that is not as in NAME.after.hex.
// Next: measure.py runs it for a folder.
// SPDX-License-Identifier: Apache-2.0
module bench;
  localparam int BYTES = 1 << 20;
  logic [7:0] memory[BYTES], expected[BYTES];
  logic clk = 0, start = 0, beat = 0, ask, write, done;
  logic [31:0] code, count, latency, insn_address, address, data, result, cycles, at = 0, wait_cycles = 0;
  logic [167:0] insn;
  logic running = 0;
  string vector;

  always #5 clk = !clk;
  always_comb for (int k = 0; k < 21; k++) insn[8*k+:8] = memory[insn_address[19:0]+20'(k)];
  always_comb for (int k = 0; k < 4; k++) data[8*k+:8] = memory[at[19:0]+20'(k)];

  dla device (
      .clk, .start, .code_base(code), .insn_count(count), .insn_address, .insn,
      .ask, .address, .beat, .data, .write, .result, .done, .cycles
  );

  // The memory: a beat a cycle, `latency` cycles after a transfer was asked for.
  assign beat = running && wait_cycles == 0 && !ask;
  always_ff @(posedge clk) begin
    if (ask) begin
      running <= 1;
      at <= address;
      wait_cycles <= latency;
    end else if (wait_cycles != 0) wait_cycles <= wait_cycles - 1;
    else if (beat) begin
      at <= at + 4;
      if (write) for (int k = 0; k < 4; k++) memory[at[19:0]+20'(k)] <= result[8*k+:8];
      if (device.last) running <= 0;
    end
  end

  initial begin
    void'($value$plusargs("vector=%s", vector));
    void'($value$plusargs("code=%h", code));
    void'($value$plusargs("count=%d", count));
    void'($value$plusargs("latency=%d", latency));
    for (int k = 0; k < BYTES; k++) memory[k] = 0;
    $readmemh({vector, ".before.hex"}, memory);
    for (int k = 0; k < BYTES; k++) expected[k] = memory[k];
    $readmemh({vector, ".after.hex"}, expected);
    @(negedge clk) start = 1;
    @(negedge clk) start = 0;
    while (!done) @(negedge clk);
    for (int k = 0; k < BYTES; k++)
      if (memory[k] != expected[k]) begin
        $display("WRONG %h: %0d, not %0d", k, memory[k], expected[k]);
        $finish;
      end
    $display("cycles %0d", cycles);
    $finish;
  end
endmodule
