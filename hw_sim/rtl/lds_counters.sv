// The counters of a program: instructions completed, cycles in which each stage worked, bytes on the bus.
//
// In:   events of this cycle.
// Out:  sums since `clear`, with a delay of two cycles, within which they are never read.
// Next: lds_registers.sv.
// SPDX-License-Identifier: Apache-2.0
module lds_counters (
    input logic clk,
    input logic clear,
    input logic [2:0] done,
    input logic finish,
    input logic [2:0] works,
    input logic [15:0] load_bytes,
    input logic [15:0] compute_bytes,
    input logic [15:0] fetch_bytes,
    input logic [15:0] store_bytes,
    output logic [31:0] progress,
    output logic [2:0][63:0] busy,
    output logic [63:0] read_bytes,
    output logic [63:0] write_bytes
);
  logic [2:0] completed, worked;
  logic [16:0] read;
  logic [15:0] written;
  always_ff @(posedge clk) begin
    worked <= works;
    completed <= 3'(done[0]) + 3'(done[1]) + 3'(done[2]) + 3'(finish);
    read <= 17'(load_bytes) + 17'(compute_bytes) + 17'(fetch_bytes);
    written <= store_bytes;
    progress <= progress + 32'(completed);
    for (int s = 0; s < 3; s++) busy[s] <= busy[s] + 64'(worked[s]);
    read_bytes <= read_bytes + 64'(read);
    write_bytes <= write_bytes + 64'(written);
    if (clear) begin
      completed <= '0;
      worked <= '0;
      read <= '0;
      written <= '0;
      progress <= '0;
      busy <= '0;
      read_bytes <= '0;
      write_bytes <= '0;
    end
  end
endmodule
