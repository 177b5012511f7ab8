// 64 KiB of block RAM behind AXI4: a burst at a time in each direction, and the host's accesses of 32 bits between them.
//
// In:   bursts of lds_device.sv, which accepts every beat and every response at once; accesses, held until `access_done`.
// Out:  beats, responses. The response to an address beyond the memory is DECERR, and nothing is written.
// Next: lds_ulx3s.sv.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_types_pkg::*;
module lds_block_memory #(
    parameter int LOG_BYTES = 16
) (
    input logic clk,
    input logic rst,
    input logic access,
    input logic access_write,
    input logic [LOG_BYTES-1:0] access_address,
    input logic [31:0] access_wdata,
    output logic access_done,
    output logic [31:0] access_rdata,
    input logic arvalid,
    output logic arready,
    input logic [63:0] araddr,
    input logic [7:0] arlen,
    output logic rvalid,
    output logic [BUS_BITS-1:0] rdata,
    output logic [1:0] rresp,
    output logic rlast,
    input logic awvalid,
    output logic awready,
    input logic [63:0] awaddr,
    input logic [7:0] awlen,
    input logic wvalid,
    output logic wready,
    input logic [BUS_BITS-1:0] wdata,
    input logic wlast,
    output logic bvalid,
    output logic [1:0] bresp
);
  localparam int LOG_DEPTH = LOG_BYTES - LOG_BEAT, WORDS = BUS_BITS / 32;

  logic reads, writes, read_bad, write_bad;
  logic [LOG_DEPTH-1:0] read_at, write_at;
  logic [7:0] beats_left;
  logic host_read, host_write, host_reading;
  logic [BUS_BITS-1:0] word;
  localparam int PART_BITS = WORDS > 1 ? $clog2(WORDS) : 1;
  wire [PART_BITS-1:0] part = WORDS > 1 ? PART_BITS'(access_address >> 2) : '0;
  wire [LOG_DEPTH-1:0] host_at = access_address[LOG_BYTES-1:LOG_BEAT];

  assign arready = !reads;
  assign awready = !writes && !bvalid;
  assign wready = writes;
  assign host_read = access && !access_write && !reads && !host_reading && !access_done;
  assign host_write = access && access_write && !writes && !access_done;

  logic [WORDS-1:0] enable;
  always_comb for (int w = 0; w < WORDS; w++) enable[w] = (wvalid && wready && !write_bad) || (host_write && (WORDS == 1 || 32'(part) == w));
  lds_ram #(.WIDTH(BUS_BITS), .LOG_DEPTH(LOG_DEPTH), .PARTS(WORDS)) memory (
      .clk, .write(enable), .write_at(writes ? write_at : host_at), .write_data(writes ? wdata : {WORDS{access_wdata}}),
      .read(reads || host_read), .read_at(reads ? read_at : host_at), .read_data(word)
  );
  assign rdata = word;
  assign access_rdata = word[32*32'(part)+:32];

  always_ff @(posedge clk) begin
    if (arvalid && arready) begin
      reads <= 1'b1;
      read_at <= araddr[LOG_BYTES-1:LOG_BEAT];
      read_bad <= araddr[63:LOG_BYTES] != 0;
      beats_left <= arlen;
    end else if (reads) begin
      read_at <= read_at + 1'b1;
      beats_left <= beats_left - 8'd1;
      if (beats_left == 0) reads <= 1'b0;
    end
    rvalid <= reads;
    rlast <= beats_left == 0;
    rresp <= read_bad ? 2'd3 : 2'd0;

    bvalid <= 1'b0;
    if (awvalid && awready) begin
      writes <= 1'b1;
      write_at <= awaddr[LOG_BYTES-1:LOG_BEAT];
      write_bad <= awaddr[63:LOG_BYTES] != 0;
    end else if (wvalid && wready) begin
      write_at <= write_at + 1'b1;
      if (wlast) begin
        writes <= 1'b0;
        bvalid <= 1'b1;
        bresp <= write_bad ? 2'd3 : 2'd0;
      end
    end

    host_reading <= host_read;
    access_done <= host_reading || host_write;
    if (rst) {reads, writes, rvalid, bvalid, host_reading, access_done} <= '0;
  end
endmodule
