// A PC's reads and writes of 32 bits, over a serial line of 8 bits, no parity, one stop bit.
//
//   W, address, data: answered by K.  R, address: answered by the data.  Both little-endian; bit 31 of the address: a register.
//
// In:   the line; the response to an access.
// Out:  the line; an access, held until `done`. Bytes between two commands that are neither W nor R are ignored.
// Next: lds_ulx3s.sv.
// SPDX-License-Identifier: Apache-2.0
module lds_serial_host #(
    parameter int BIT_CYCLES = 217
) (
    input logic clk,
    input logic rst,
    input logic rx,
    output logic tx,
    output logic access,
    output logic write,
    output logic [31:0] address,
    output logic [31:0] wdata,
    input logic done,
    input logic [31:0] rdata
);
  localparam logic [15:0] WHOLE = 16'(BIT_CYCLES - 1), HALF = 16'(BIT_CYCLES / 2);

  // --- a byte comes: sampled in the middle of each bit -------------------------------------------------------
  logic rx_1, rx_2, comes, came;
  logic [15:0] rx_wait;
  logic [3:0] rx_bits;  // bits still to be sampled: the start bit, eight data bits, the stop bit
  logic [7:0] rx_byte;
  always_ff @(posedge clk) begin
    {rx_2, rx_1} <= {rx_1, rx};
    came <= 1'b0;
    if (!comes) begin
      comes <= !rx_2;
      rx_wait <= HALF;
      rx_bits <= 4'd10;
    end else if (rx_wait != 0) rx_wait <= rx_wait - 16'd1;
    else begin
      rx_wait <= WHOLE;
      rx_bits <= rx_bits - 4'd1;
      if (rx_bits == 4'd10 && rx_2) comes <= 1'b0;  // a glitch instead of a start bit
      else if (rx_bits == 4'd1) begin
        comes <= 1'b0;
        came <= rx_2;
      end else if (rx_bits != 4'd10) rx_byte <= {rx_2, rx_byte[7:1]};
    end
    if (rst) {comes, came, rx_1, rx_2} <= 4'b0011;
  end

  // --- a command: a byte, four of the address, four of data ----------------------------------------------------
  logic [3:0] bytes;  // received bytes of the command
  logic answers;
  always_ff @(posedge clk) begin
    if (came && !access && !answers) begin
      if (bytes == 0) begin
        write <= rx_byte == 8'h57;
        if (rx_byte == 8'h57 || rx_byte == 8'h52) bytes <= 4'd1;
      end else begin
        if (bytes <= 4'd4) address <= {rx_byte, address[31:8]};
        else wdata <= {rx_byte, wdata[31:8]};
        bytes <= bytes + 4'd1;
        if (bytes == (write ? 4'd8 : 4'd4)) begin
          bytes <= 4'd0;
          access <= 1'b1;
        end
      end
    end
    if (done) access <= 1'b0;
    if (rst) {bytes, access} <= '0;
  end

  // --- the answer ------------------------------------------------------------------------------------------------
  logic [49:0] line;  // bits to be sent, the lowest first
  logic [5:0] tx_bits;
  logic [15:0] tx_wait;
  assign tx = line[0];
  assign answers = tx_bits != 0;
  always_ff @(posedge clk) begin
    if (access && done) begin
      line <= write ? {40'hFF_FFFF_FFFF, 1'b1, 8'h4B, 1'b0}
                    : {10'h3FF, 1'b1, rdata[31:24], 1'b0, 1'b1, rdata[23:16], 1'b0, 1'b1, rdata[15:8], 1'b0, 1'b1, rdata[7:0], 1'b0};
      tx_bits <= write ? 6'd10 : 6'd40;
      tx_wait <= WHOLE;
    end else if (answers) begin
      tx_wait <= tx_wait == 0 ? WHOLE : tx_wait - 16'd1;
      if (tx_wait == 0) begin
        line <= {1'b1, line[49:1]};
        tx_bits <= tx_bits - 6'd1;
      end
    end
    if (rst) {line, tx_bits} <= {{50{1'b1}}, 6'd0};
  end
endmodule
