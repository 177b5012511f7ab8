/* The device: where its registers and its memory are.
 *
 * In:   model.h says how much DMA memory the model needs, and where the device's registers were configured to be; board.c has the rest.
 * Out:  an lds_hal.
 * Next: driver/README.md explains each field.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "board.h"
#include "model.h"

/* The device's address for byte 0 of the CPU's memory; 0 where both see the same addresses. */
#ifndef BOARD_BUS_OFFSET
#define BOARD_BUS_OFFSET MODEL_BUS_OFFSET
#endif
#ifndef BOARD_REGISTERS
#define BOARD_REGISTERS MODEL_REGISTER_BASE
#endif

static uint8_t dma_memory[MODEL_DMA_BYTES] __attribute__((aligned(MODEL_DMA_ALIGN), section(".dma")));
#ifndef MODEL_POOL_BLOCKS
#define MODEL_POOL_BLOCKS 12 /* 8 regions, the stream, some to spare */
#endif
static lds_pool_block blocks[MODEL_POOL_BLOCKS];
static lds_baremetal board;

#if defined(MODEL_ACCELERATORS) && MODEL_ACCELERATORS > MODEL_FIRST_IS_ACCELERATOR
#define OTHERS (MODEL_ACCELERATORS - MODEL_FIRST_IS_ACCELERATOR)
static lds_baremetal others[OTHERS];
#endif

static int interrupts(lds_baremetal *one, uint32_t irq) {
  if (one->irq_enable == NULL || one->irq != irq) return 0;
  lds_baremetal_interrupt(one);
  return 1;
}

int board_interrupt(uint32_t irq) {
  int found = interrupts(&board, irq);
#ifdef OTHERS
  uint32_t k;
  for (k = 0; k < OTHERS; ++k) found |= interrupts(&others[k], irq);
#endif
  return found;
}

void board_open(lds_hal *hal) {
  board.registers = (volatile void *)(uintptr_t)BOARD_REGISTERS;
  board.pool.cpu = dma_memory;
  board.pool.bus = (uintptr_t)dma_memory + BOARD_BUS_OFFSET;
  board.pool.size_bytes = sizeof dma_memory;
  board.pool.blocks = blocks;
  board.pool.capacity = sizeof blocks / sizeof blocks[0];
  board_port(&board);
#ifdef BOARD_IRQ
  board.irq = BOARD_IRQ;
#endif
  lds_baremetal_hal(&board, hal);
}

#ifdef OTHERS
/* Where the registers of the first accelerator beside the model's own device are; the next follow. */
#ifndef BOARD_ACCELERATORS
#define BOARD_ACCELERATORS (BOARD_REGISTERS + 0x10000u)
#endif

void board_accelerator(const lds_hal *hal, uint32_t index, lds_hal *out);

/* The same memory and clock, other registers, an interrupt of its own or none: then it is polled. board.reset is for the first device. */
void board_accelerator(const lds_hal *hal, uint32_t index, lds_hal *out) {
  const uint32_t behind = index - MODEL_FIRST_IS_ACCELERATOR;
  *out = *hal;
  if (MODEL_FIRST_IS_ACCELERATOR && index == 0) return;
  others[behind] = board;
  others[behind].registers = (volatile void *)(uintptr_t)(BOARD_ACCELERATORS + 0x10000u * behind);
  others[behind].reset = NULL;
#ifdef BOARD_ACCELERATORS_IRQ
  others[behind].irq = BOARD_ACCELERATORS_IRQ + behind;
#else
  others[behind].irq_enable = NULL;
#endif
  lds_baremetal_hal(&others[behind], out);
}
#endif
