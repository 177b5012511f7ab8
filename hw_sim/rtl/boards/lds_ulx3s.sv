// The device on a ULX3S (ECP5-85F): a PC behind the USB serial port, 64 KiB of block RAM as its memory, the board's clock of 25 MHz.
//
// In:   the oscillator; the serial port; FIRE 1 resets.
// Out:  the serial port; LEDs: 0 alive, 1 interrupt, 2 something is read, 3 something is written.
// Next: `make bitstream`. Never run on a board. The board's SDRAM is not used: programs that need more than 64 KiB of streams,
//       weights and tensors cannot run, and an access beyond them gets a bus error.
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_types_pkg::*;
module lds_ulx3s #(
    parameter int CLOCK_HZ = 25_000_000,
    parameter int BAUD = 115_200
) (
    input logic clk_25mhz,
    input logic btn_fire_1,
    input logic ftdi_txd,  // from the PC
    output logic ftdi_rxd,
    output logic wifi_gpio0,  // high: keeps the board's ESP32 from taking control of the board
    output logic [7:0] led
);
  assign wifi_gpio0 = 1'b1;

  logic [7:0] since_power = 8'd0;
  wire rst = since_power != 8'hFF;
  logic fire_1, fire_2;
  always_ff @(posedge clk_25mhz) begin
    {fire_2, fire_1} <= {fire_1, btn_fire_1};
    since_power <= fire_2 ? 8'd0 : rst ? since_power + 8'd1 : since_power;
  end

  logic access, access_write, access_done, memory_done;
  logic [31:0] access_address, access_wdata, access_rdata, memory_rdata;
  wire to_registers = access_address[31];
  lds_serial_host #(.BIT_CYCLES(CLOCK_HZ / BAUD)) host (
      .clk(clk_25mhz), .rst, .rx(ftdi_txd), .tx(ftdi_rxd), .access, .write(access_write), .address(access_address), .wdata(access_wdata),
      .done(access_done), .rdata(access_rdata)
  );

  // --- AXI4-Lite: an access stands until it is answered ---------------------------------------------------
  logic asked, awready, wready, bvalid, arready, rvalid, irq;
  logic [1:0] bresp_unused, rresp_unused, arburst_unused, awburst_unused;
  logic [31:0] register_rdata;
  wire asks = access && to_registers && !asked;
  wire register_done = asked && (access_write ? bvalid : rvalid);
  always_ff @(posedge clk_25mhz) begin
    if (asks && (access_write ? awready && wready : arready)) asked <= 1'b1;
    if (register_done || rst) asked <= 1'b0;
  end
  assign access_done = to_registers ? register_done : memory_done;
  assign access_rdata = to_registers ? register_rdata : memory_rdata;

  logic m_arvalid, m_arready, m_rvalid, m_rready_unused, m_rlast, m_awvalid, m_awready, m_wvalid, m_wready, m_wlast, m_bvalid, m_bready_unused;
  logic [63:0] m_araddr, m_awaddr;
  logic [7:0] m_arlen, m_awlen;
  logic [2:0] m_arsize_unused, m_awsize_unused;
  logic [1:0] m_rresp, m_bresp;
  logic [BUS_BITS-1:0] m_rdata, m_wdata;
  logic [BUS_BYTES-1:0] m_wstrb_unused;
  lds_device device (
      .clk(clk_25mhz), .rst, .irq, .s_axi_awvalid(asks && access_write), .s_axi_awready(awready), .s_axi_awaddr(access_address[11:0]),
      .s_axi_wvalid(asks && access_write), .s_axi_wready(wready), .s_axi_wdata(access_wdata), .s_axi_bvalid(bvalid), .s_axi_bready(1'b1),
      .s_axi_bresp(bresp_unused), .s_axi_arvalid(asks && !access_write), .s_axi_arready(arready), .s_axi_araddr(access_address[11:0]),
      .s_axi_rvalid(rvalid), .s_axi_rready(1'b1), .s_axi_rdata(register_rdata), .s_axi_rresp(rresp_unused), .m_axi_arvalid(m_arvalid),
      .m_axi_arready(m_arready), .m_axi_araddr(m_araddr), .m_axi_arlen(m_arlen), .m_axi_arsize(m_arsize_unused),
      .m_axi_arburst(arburst_unused), .m_axi_rvalid(m_rvalid), .m_axi_rready(m_rready_unused), .m_axi_rdata(m_rdata), .m_axi_rresp(m_rresp),
      .m_axi_rlast(m_rlast), .m_axi_awvalid(m_awvalid), .m_axi_awready(m_awready), .m_axi_awaddr(m_awaddr), .m_axi_awlen(m_awlen),
      .m_axi_awsize(m_awsize_unused), .m_axi_awburst(awburst_unused), .m_axi_wvalid(m_wvalid), .m_axi_wready(m_wready),
      .m_axi_wdata(m_wdata), .m_axi_wstrb(m_wstrb_unused), .m_axi_wlast(m_wlast), .m_axi_bvalid(m_bvalid), .m_axi_bready(m_bready_unused),
      .m_axi_bresp(m_bresp)
`ifdef VERILATOR
      , .probe_memory(3'd0), .probe_tile(16'd0), .probe_data()
`endif
  );
  lds_block_memory memory (
      .clk(clk_25mhz), .rst, .access(access && !to_registers), .access_write, .access_address(access_address[15:0]), .access_wdata,
      .access_done(memory_done), .access_rdata(memory_rdata), .arvalid(m_arvalid), .arready(m_arready), .araddr(m_araddr), .arlen(m_arlen),
      .rvalid(m_rvalid), .rdata(m_rdata), .rresp(m_rresp), .rlast(m_rlast), .awvalid(m_awvalid), .awready(m_awready), .awaddr(m_awaddr),
      .awlen(m_awlen), .wvalid(m_wvalid), .wready(m_wready), .wdata(m_wdata), .wlast(m_wlast), .bvalid(m_bvalid), .bresp(m_bresp)
  );

  logic [24:0] alive = 25'd0;
  always_ff @(posedge clk_25mhz) alive <= alive + 25'd1;
  assign led = {4'd0, m_wvalid, m_rvalid, irq, alive[24]};
endmodule
