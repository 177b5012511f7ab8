# SPDX-License-Identifier: Apache-2.0
# How model.elf is built, for every processor: its Makefile says CROSS_COMPILE and MACHINE, the flags of the processor.
CC = $(CROSS_COMPILE)gcc
FLAGS ?=
DEBUG ?=
CFLAGS = $(MACHINE) -Os -g -std=gnu99 -Wall -Wextra -ffp-contract=off -fno-strict-aliasing -ffreestanding -ffunction-sections -fdata-sections \
         $(FLAGS) $(if $(DEBUG),-DMODEL_DIGESTS) -I. -Iloadstone/include
SOURCES = main.c board.c device.c startup.c print.c libc.c $(wildcard networks.c *.S loadstone/*.c steps/*.c accelerators/*.c)

model.elf: $(SOURCES) $(wildcard *.lds *.h) link.ld
	$(CC) $(CFLAGS) -nostdlib -T link.ld -Wl,--gc-sections -Wl,-Map=model.map $(SOURCES) -lgcc -o $@
	$(CROSS_COMPILE)size $@

clean:
	rm -f model.elf model.map
