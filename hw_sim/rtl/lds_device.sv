// The device: fetch, three stages with their queues and tokens, one read and one write channel, registers.
//
// In:   AXI4-Lite from the host; AXI4 to memory.
// Out:  the same; the interrupt.
// Next: rtl_device.cc runs it under Verilator; `make synth` synthesizes it.
//
//           +------------------- arbiter: fetch, UOP, INP and WGT, ACC ------- AXI4 read
//           |             |                |
//         fetch         load           compute         store ----------------- AXI4 write
//           +-- queues --->+---- tokens --->+--- tokens -->+
// SPDX-License-Identifier: Apache-2.0
import lds_config_pkg::*;
import lds_isa_pkg::*;
import lds_types_pkg::*;
module lds_device (
    input logic clk,
    input logic rst,
    output logic irq,
    // AXI4-Lite: registers
    input logic s_axi_awvalid,
    output logic s_axi_awready,
    input logic [11:0] s_axi_awaddr,
    input logic s_axi_wvalid,
    output logic s_axi_wready,
    input logic [31:0] s_axi_wdata,
    output logic s_axi_bvalid,
    input logic s_axi_bready,
    output logic [1:0] s_axi_bresp,
    input logic s_axi_arvalid,
    output logic s_axi_arready,
    input logic [11:0] s_axi_araddr,
    output logic s_axi_rvalid,
    input logic s_axi_rready,
    output logic [31:0] s_axi_rdata,
    output logic [1:0] s_axi_rresp,
    // AXI4: memory
    output logic m_axi_arvalid,
    input logic m_axi_arready,
    output logic [63:0] m_axi_araddr,
    output logic [7:0] m_axi_arlen,
    output logic [2:0] m_axi_arsize,
    output logic [1:0] m_axi_arburst,
    input logic m_axi_rvalid,
    output logic m_axi_rready,
    input logic [BUS_BITS-1:0] m_axi_rdata,
    input logic [1:0] m_axi_rresp,
    input logic m_axi_rlast,
    output logic m_axi_awvalid,
    input logic m_axi_awready,
    output logic [63:0] m_axi_awaddr,
    output logic [7:0] m_axi_awlen,
    output logic [2:0] m_axi_awsize,
    output logic [1:0] m_axi_awburst,
    output logic m_axi_wvalid,
    input logic m_axi_wready,
    output logic [BUS_BITS-1:0] m_axi_wdata,
    output logic [BUS_BYTES-1:0] m_axi_wstrb,
    output logic m_axi_wlast,
    input logic m_axi_bvalid,
    output logic m_axi_bready,
    input logic [1:0] m_axi_bresp
`ifdef VERILATOR
    ,  // a tile of a scratchpad, for tests
    input logic [2:0] probe_memory,
    input logic [15:0] probe_tile,
    output logic [PROBE_BITS-1:0] probe_data
`endif
);
  localparam logic [1:0] L = STAGE_LOAD[1:0], C = STAGE_COMPUTE[1:0], S = STAGE_STORE[1:0];
  assign s_axi_bresp = 2'd0;
  assign s_axi_rresp = 2'd0;
  assign {m_axi_arsize, m_axi_awsize} = {3'(LOG_BEAT), 3'(LOG_BEAT)};
  assign {m_axi_arburst, m_axi_awburst} = {2'd1, 2'd1};
  assign m_axi_rready = 1'b1;
  assign m_axi_wstrb = '1;
  assign m_axi_bready = 1'b1;

  // --- the program -------------------------------------------------------------------------------------
  logic start, abort, soft_reset, finish, clear, launch, enable, halt, ended;
  logic [2:0] state;
  logic [3:0] error_code;
  logic [31:0] error_pc, error_address, progress, stream_count;
  logic [63:0] cycles, stream_address, read_bytes, write_bytes;
  logic [2:0][63:0] busy_cycles;
  region_t [MAX_REGIONS-1:0] regions;
  error_t load_error, compute_error, store_error, token_error, read_error;

  lds_registers registers (
      .clk, .rst, .awvalid(s_axi_awvalid), .awready(s_axi_awready), .awaddr(s_axi_awaddr), .wvalid(s_axi_wvalid), .wready(s_axi_wready),
      .wdata(s_axi_wdata), .bvalid(s_axi_bvalid), .bready(s_axi_bready), .arvalid(s_axi_arvalid), .arready(s_axi_arready),
      .araddr(s_axi_araddr), .rvalid(s_axi_rvalid), .rready(s_axi_rready), .rdata(s_axi_rdata), .irq, .start, .abort, .soft_reset,
      .stream_address, .stream_count, .regions, .state, .ended, .error(error_code), .error_pc, .error_address, .progress, .cycles,
      .busy(busy_cycles), .read_bytes, .write_bytes
  );

  // --- queues and tokens -------------------------------------------------------------------------------
  logic [2:0] room, push, starts, done, busy, empty, blocked, pop_prev, pop_next, push_prev, push_next;
  entry_t pushed;
  entry_t [2:0] head, running;
  logic l2c, c2l, c2s, s2c;  // whether there is a token from one stage to the other
  logic [3:0] overflow;
  wire [2:0] some_prev = {c2s, l2c, 1'b1}, some_next = {1'b1, s2c, c2l};
  for (genvar s = 0; s < 3; s++) begin : g_queue
    lds_stage_queue #(.ENTRIES(QUEUE_ENTRIES)) queue (
        .clk, .clear, .enable, .push(push[s]), .pushed, .room(room[s]), .some_prev(some_prev[s]), .some_next(some_next[s]),
        .start(starts[s]), .head(head[s]), .running(running[s]), .done(done[s]), .busy(busy[s]), .empty(empty[s]), .blocked(blocked[s]),
        .pop_prev(pop_prev[s]), .pop_next(pop_next[s]), .push_prev(push_prev[s]), .push_next(push_next[s])
    );
  end
  lds_tokens #(.MOST(MAX_TOKENS)) load_to_compute (.clk, .clear, .push(push_next[L]), .pop(pop_prev[C]), .some(l2c), .overflow(overflow[0]));
  lds_tokens #(.MOST(MAX_TOKENS)) compute_to_load (.clk, .clear, .push(push_prev[C]), .pop(pop_next[L]), .some(c2l), .overflow(overflow[1]));
  lds_tokens #(.MOST(MAX_TOKENS)) compute_to_store (.clk, .clear, .push(push_next[C]), .pop(pop_prev[S]), .some(c2s), .overflow(overflow[2]));
  lds_tokens #(.MOST(MAX_TOKENS)) store_to_compute (.clk, .clear, .push(push_prev[S]), .pop(pop_next[C]), .some(s2c), .overflow(overflow[3]));
  wire [1:0] overflows = overflow[0] ? L : overflow[3] ? S : C;
  assign token_error = '{valid: overflow != 0, code: ERROR_DEADLOCK, index: running[overflows].index, address: 32'd0};

  // --- reads -------------------------------------------------------------------------------------------
  logic [2:0] request, grant, beat, refused;
  assign refused[0] = 1'b0;
  logic [2:0][63:0] request_address;
  logic [2:0][8:0] request_beats;
  logic compute_first, reads_idle, stores_idle, stuck;
  logic [63:0] beat_address;
  lds_read_arbiter #(.READERS(3), .READS(READS_IN_FLIGHT)) arbiter (
      .clk, .clear, .enable(enable), .request, .compute_first, .request_address, .request_beats, .refused, .grant, .beat,
      .beat_address,
      .idle(reads_idle), .arvalid(m_axi_arvalid), .arready(m_axi_arready), .araddr(m_axi_araddr), .arlen(m_axi_arlen),
      .rvalid(m_axi_rvalid), .rlast(m_axi_rlast)
  );
  wire [31:0] reader_index = beat[1] ? running[L].index : beat[2] ? running[C].index : 32'd0;
  assign read_error = '{valid: beat != 0 && m_axi_rresp != 0, code: ERROR_BUS, index: reader_index, address: beat_address[31:0]};

  lds_fetch fetch (
      .clk, .clear, .launch, .stream_address, .stream_count, .request(request[0]), .request_address(request_address[0]),
      .request_beats(request_beats[0]), .grant(grant[0]), .beat(beat[0]), .beat_data(m_axi_rdata), .room, .push, .pushed, .stuck
  );

  // --- stages ------------------------------------------------------------------------------------------
  write_t load_write;
  tile_write_t store_write;
  logic out_read;
  logic [LA-1:0] out_tile;
  logic [OUT_BITS-1:0] out_data;
  logic [15:0] load_bytes, compute_bytes, store_bytes;
  lds_load_stage load (
      .clk, .clear, .start(starts[L]), .head(head[L]), .running(running[L]), .regions, .request(request[1]), .refused(refused[1]),
      .request_address(request_address[1]), .request_beats(request_beats[1]), .grant(grant[1]), .beat(beat[1]), .beat_data(m_axi_rdata),
      .write(load_write), .bytes(load_bytes), .done(done[L]), .error(load_error)
  );
  lds_compute_stage compute (
      .clk, .clear, .start(starts[C]), .head(head[C]), .running(running[C]), .regions, .request(request[2]), .refused(refused[2]), .request_first(compute_first),
      .request_address(request_address[2]), .request_beats(request_beats[2]), .grant(grant[2]), .beat(beat[2]), .beat_data(m_axi_rdata),
      .load_write, .store_write, .out_read, .out_tile, .out_data, .bytes(compute_bytes), .done(done[C]), .finish, .error(compute_error)
  );
  lds_store_stage store (
      .clk, .clear, .halt, .start(starts[S]), .head(head[S]), .running(running[S]), .regions, .out_read, .out_tile, .out_data,
      .write(store_write), .done(done[S]), .error(store_error), .idle(stores_idle), .bytes(store_bytes), .awvalid(m_axi_awvalid), .awready(m_axi_awready),
      .awaddr(m_axi_awaddr), .awlen(m_axi_awlen), .wvalid(m_axi_wvalid), .wready(m_axi_wready), .wdata(m_axi_wdata), .wlast(m_axi_wlast),
      .bvalid(m_axi_bvalid), .bresp(m_axi_bresp)
  );

  // --- ends --------------------------------------------------------------------------------------------
  logic quiet;
  always_ff @(posedge clk) quiet <= stuck && (empty | blocked) == 3'b111 && reads_idle && !clear;
  // The first of the blocked instructions, two cycles later: a deadlock is reported after many equal cycles.
  logic [31:0] first_of_two, third, first_blocked;
  wire load_first = blocked[L] && (!blocked[C] || head[L].index < head[C].index);
  always_ff @(posedge clk) begin
    first_of_two <= load_first ? head[L].index : blocked[C] ? head[C].index : 32'hFFFFFFFF;
    third <= empty == 3'b111 ? stream_count - 32'd1 : blocked[S] ? head[S].index : 32'hFFFFFFFF;
    first_blocked <= first_of_two < third ? first_of_two : third;
  end
  lds_control #(.ERRORS(5), .QUIET(14)) control (
      .clk, .rst, .start, .abort, .soft_reset, .finish, .errors({store_error, compute_error, load_error, token_error, read_error}),
      .progress, .blocked(quiet), .blocked_index(first_blocked), .bus_idle(reads_idle && stores_idle), .clear, .launch, .enable, .halt,
      .state, .ended, .error(error_code), .error_pc, .error_address, .cycles
  );
  wire [2:0] works = enable ? (starts | busy) & ~{1'b0, finish, 1'b0} : 3'b000;
  lds_counters counters (
      .clk, .clear(launch), .done, .finish, .works(works), .load_bytes, .compute_bytes,
      .fetch_bytes(beat[0] ? 16'(BUS_BYTES) : 16'd0), .store_bytes, .progress, .busy(busy_cycles), .read_bytes, .write_bytes
  );

`ifdef VERILATOR
  logic [INP_BITS-1:0] inp_probe;
  if (CAN_DEPTHWISE) begin : g_probe
    logic [3:0][INP_BITS-1:0] bank;
    for (genvar b = 0; b < 4; b++) begin : g_bank
      if (CAN_STORE_INP) begin : g_two
        wire is_stored = compute.macs.g_windows.inp_ram.g_bank[b].ram.g_stored.from[probe_tile[LI-1:2]] !=
            compute.macs.g_windows.inp_ram.g_bank[b].ram.g_stored.to[probe_tile[LI-1:2]];
        assign bank[b] = is_stored ? compute.macs.g_windows.inp_ram.g_bank[b].ram.g_stored.stored.words[probe_tile[LI-1:2]]
            : compute.macs.g_windows.inp_ram.g_bank[b].ram.loaded.memory.words[probe_tile[LI-1:2]];
      end else begin : g_one
        assign bank[b] = compute.macs.g_windows.inp_ram.g_bank[b].ram.loaded.memory.words[probe_tile[LI-1:2]];
      end
    end
    assign inp_probe = bank[probe_tile[1:0]];
  end else if (CAN_STORE_INP) begin : g_two_probes
    wire is_stored = compute.macs.g_tile.inp_ram.g_stored.from[LI'(probe_tile)] != compute.macs.g_tile.inp_ram.g_stored.to[LI'(probe_tile)];
    assign inp_probe = is_stored ? compute.macs.g_tile.inp_ram.g_stored.stored.words[LI'(probe_tile)]
        : compute.macs.g_tile.inp_ram.loaded.memory.words[LI'(probe_tile)];
  end else begin : g_one_probe
    assign inp_probe = compute.macs.g_tile.inp_ram.loaded.memory.words[LI'(probe_tile)];
  end
  always_comb
    case (probe_memory)
      MEMORY_WGT: probe_data = PROBE_BITS'(compute.macs.wgt_ram.memory.words[LW'(probe_tile)]);
      MEMORY_INP: probe_data = PROBE_BITS'(inp_probe);
      MEMORY_OUT: probe_data = PROBE_BITS'(low_bytes(compute.acc_ram.out.words[LA'(probe_tile)]));
      default: probe_data = PROBE_BITS'(compute.acc_ram.first.words[LA'(probe_tile)]);
    endcase
`endif
endmodule
