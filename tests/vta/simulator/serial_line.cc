// A PC at the serial port of lds_ulx3s.sv under Verilator.
//
// In:   bytes on stdin: how many to send (1 byte), how many to wait for (1 byte), those to send; again and again.
// Out:  the bytes that came, on stdout; exit 1 when one does not come.
// Next: test_rtl_board.py.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>

#include "Vlds_ulx3s.h"
#include "verilated.h"

static const int kBitCycles = 8;
static const int kPatience = 1 << 20;
static Vlds_ulx3s *board;

static void cycle() {
  board->clk_25mhz = 1;
  board->eval();
  board->clk_25mhz = 0;
  board->eval();
}

static void cycles(int n) {
  while (n-- > 0) cycle();
}

static void send(int byte) {
  const int bits = (byte << 1) | 0x200;  // start, eight bits, stop
  for (int n = 0; n < 10; n++) {
    board->ftdi_txd = (bits >> n) & 1;
    cycles(kBitCycles);
  }
}

static int receive() {
  int byte = 0, patience = kPatience;
  while (board->ftdi_rxd && patience-- > 0) cycle();
  if (patience <= 0) return -1;
  cycles(kBitCycles / 2);
  for (int n = 0; n < 8; n++) {
    cycles(kBitCycles);
    byte |= board->ftdi_rxd << n;
  }
  cycles(kBitCycles);
  return byte;
}

int main() {
  board = new Vlds_ulx3s;
  board->ftdi_txd = 1;
  cycles(1000);
  for (int count = std::getchar(); count != EOF; count = std::getchar()) {
    int wanted = std::getchar();
    while (count-- > 0) send(std::getchar());
    while (wanted-- > 0) {
      const int byte = receive();
      if (byte < 0) return 1;
      std::putchar(byte);
    }
    std::fflush(stdout);
  }
  delete board;
  return 0;
}
