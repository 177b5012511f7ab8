// What the emulated processor runs first, in place of a BIOS: from real mode to 64 bits, with all vector registers switched on.
//
// In:   the processor after its reset, at 0xfffffff0; monitor.c, compiled, which this file holds.
// Out:  64-bit code, addresses are physical ones up to 4 GiB; SSE, AVX and AVX-512 may be used. A jump to the monitor, at 1 MiB.
// Next: monitor.c.
// SPDX-License-Identifier: Apache-2.0
	.set TABLES, 0x80000		# of pages: six of 4 KiB
	.set MONITOR, 0x100000
	.set BITS_OF_CR4, 0x40620	# PAE, OSFXSR, OSXMMEXCPT, OSXSAVE
	.set BITS_OF_XCR0, 0xe7		# x87, SSE, AVX, and the three of AVX-512

	.text
	.globl _start
_start:
rom:
	.code32
protected:
	movw $0x10, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss

	movl $monitor, %esi
	movl $MONITOR, %edi
	movl $monitor_end - monitor, %ecx
	rep movsb

	# Four tables of 512 pages of 2 MiB, each page where it is; a table of these, and a table of that.
	movl $TABLES, %edi
	movl $6 * 1024, %ecx
	xorl %eax, %eax
	rep stosl
	movl $TABLES + 0x1003, TABLES
	movl $TABLES + 0x2003, TABLES + 0x1000
	movl $TABLES + 0x3003, TABLES + 0x1008
	movl $TABLES + 0x4003, TABLES + 0x1010
	movl $TABLES + 0x5003, TABLES + 0x1018
	movl $TABLES + 0x2000, %edi
	movl $0x83, %eax		# present, writable, 2 MiB
	movl $2048, %ecx
1:	movl %eax, (%edi)
	addl $0x200000, %eax
	addl $8, %edi
	loop 1b

	movl $BITS_OF_CR4, %eax
	movl %eax, %cr4
	movl $TABLES, %eax
	movl %eax, %cr3
	movl $0xc0000080, %ecx		# EFER
	movl $0x101, %eax		# long mode, and SYSCALL
	xorl %edx, %edx
	wrmsr
	movl $0x80000033, %eax		# paging; floating point as it is today; protected
	movl %eax, %cr0
	xorl %ecx, %ecx
	movl $BITS_OF_XCR0, %eax
	xorl %edx, %edx
	xsetbv
	ljmpl $0x18, $MONITOR

	.balign 8
descriptors:				# none, 32-bit code, data, 64-bit code, data
	.quad 0, 0x00cf9b000000ffff, 0x00cf93000000ffff, 0x00af9b000000ffff, 0x00cf93000000ffff
descriptors_at:
	.word . - descriptors - 1
	.long descriptors

monitor:
	.incbin "monitor.bin"
monitor_end:

	.code16
real:
	cli
	lgdtl %cs:descriptors_at - rom
	movl $0x11, %eax
	movl %eax, %cr0
	ljmpl $8, $protected

	.org 0xfff0
	jmp real
	.org 0x10000
