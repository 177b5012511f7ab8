// Runs one statically linked Linux program on a bare x86-64 processor: what a kernel does for it, and no more.
//
// In:   a disk with a table, the program, and the files that it may read (machine.py writes it).
// Out:  what it prints, on the first serial line, and as the last line "exit STATUS"; then the emulator is told to end.
// Next: tests/bochs/machine.py reads the line.
//
// One thread, no interrupts, no protection: the program runs where this runs, and memory that it gives back is seldom used again.
// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <stdint.h>

enum { kMost = 8, kPage = 4096, kStack = 1 << 20, kSector = 512 };

// The disk's first page; where things are, counts from its begin.
typedef struct {
  char name[48];
  uint64_t offset, size;
} File;
typedef struct {
  uint64_t memory_bytes, disk_bytes, argument_count, file_count;
  char arguments[kMost][48];  // the program's name is the first
  File files[kMost];          // the program is the first
} Table;
static Table *const kTable = (Table *)0x200000;  // and the disk behind it

typedef struct {
  uint64_t rax, rdi, rsi, rdx, r10, r8, r9;
} Registers;

static struct {
  const File *file;
  uint64_t at;
} opened[kMost];
static uint64_t heap_begin, heap_end, heap_limit, mapped;

// --- the serial line, and the end -------------------------------------------------------------------
static inline void out8(uint16_t port, uint8_t value) { __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port)); }
static inline uint8_t in8(uint16_t port) {
  uint8_t value;
  __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}

static void print(const char *text, uint64_t count) {
  for (uint64_t k = 0; k < count; ++k) {
    while ((in8(0x3fd) & 0x20) == 0) continue;
    out8(0x3f8, (uint8_t)text[k]);
  }
}

static void print_text(const char *text) {
  uint64_t count = 0;
  while (text[count] != 0) ++count;
  print(text, count);
}

static void print_number(uint64_t value, unsigned base) {
  char digits[24];
  unsigned at = sizeof digits;
  do digits[--at] = "0123456789abcdef"[value % base];
  while ((value /= base) != 0);
  print(digits + at, sizeof digits - at);
}

__attribute__((noreturn)) static void end(uint64_t status) {
  print_text("\nexit ");
  print_number(status, 10);
  print_text("\n");
  while ((in8(0x3fd) & 0x40) == 0) continue;  // until the line has sent everything
  for (const char *c = "Shutdown"; *c != 0; ++c) out8(0x8900, (uint8_t)*c);
  for (;;) __asm__ volatile("hlt");
}

// --- the disk: the first of the first controller, 256 sectors at a time -----------------------------
static void read_disk(uint64_t bytes) {
  uint8_t *to = (uint8_t *)kTable;
  uint64_t left = (bytes + kSector - 1) / kSector;
  for (uint64_t sector = 0; left != 0;) {
    const uint64_t some = left < 256 ? left : 256;
    out8(0x3f6, 2);  // no interrupts
    while ((in8(0x1f7) & 0x80) != 0) continue;
    out8(0x1f6, (uint8_t)(0xe0 | sector >> 24));
    out8(0x1f2, (uint8_t)some);
    for (unsigned k = 0; k < 3; ++k) out8((uint16_t)(0x1f3 + k), (uint8_t)(sector >> 8 * k));
    out8(0x1f7, 0x20);
    for (unsigned k = 0; k < some; ++k) {
      uint8_t state;
      while (((state = in8(0x1f7)) & 0x88) != 8)
        if ((state & 0x81) == 1) {
          print_text("\nthe disk cannot be read");
          end(255);
        }
      uint64_t words = kSector / 4;
      __asm__ volatile("rep insl" : "+D"(to), "+c"(words) : "d"(0x1f0) : "memory");
    }
    sector += some;
    left -= some;
  }
}

// Called by the entry of every exception.
__attribute__((noreturn, used)) static void stop_at(uint64_t vector, uint64_t error, uint64_t at) {
  uint64_t address;
  __asm__ volatile("mov %%cr2, %0" : "=r"(address));
  print_text("\nexception ");
  print_number(vector, 10);
  print_text(", error ");
  print_number(error, 16);
  print_text(", at ");
  print_number(at, 16);
  print_text(", CR2 ");
  print_number(address, 16);
  end(255);
}

// --- what the program asks for ----------------------------------------------------------------------
// Eight bytes at a time: the emulator takes each repetition by itself.
static void fill(uint64_t at, uint64_t count) {
  uint64_t words = count / 8, rest = count % 8;
  __asm__ volatile("rep stosq" : "+D"(at), "+c"(words) : "a"(0) : "memory");
  __asm__ volatile("rep stosb" : "+D"(at), "+c"(rest) : "a"(0) : "memory");
}
static void copy(uint64_t to, uint64_t from, uint64_t count) {
  uint64_t words = count / 8, rest = count % 8;
  __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(rest) : : "memory");
}
static void write_msr(uint32_t number, uint64_t value) {
  __asm__ volatile("wrmsr" : : "c"(number), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}

static int same(const char *a, const char *b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

enum { kNoEntry = -2, kBadFile = -9, kNoMemory = -12, kInvalid = -22, kNotTerminal = -25, kUnknown = -38 };

static int64_t open_file(const char *name) {
  for (uint64_t k = 0; k < kTable->file_count; ++k)
    for (int fd = 3; fd < kMost && same(kTable->files[k].name, name); ++fd)
      if (opened[fd].file == NULL) {
        opened[fd].file = &kTable->files[k];
        opened[fd].at = 0;
        return fd;
      }
  return kNoEntry;
}

static int64_t read_file(uint64_t fd, uint64_t to, uint64_t count) {
  if (fd >= kMost || opened[fd].file == NULL) return kBadFile;
  const File *file = opened[fd].file;
  const uint64_t left = opened[fd].at < file->size ? file->size - opened[fd].at : 0, some = count < left ? count : left;
  copy(to, (uint64_t)kTable + file->offset + opened[fd].at, some);
  opened[fd].at += some;
  return (int64_t)some;
}

static int64_t seek_file(uint64_t fd, uint64_t to, uint64_t from) {
  if (fd >= kMost || opened[fd].file == NULL) return fd < 3 ? -29 : kBadFile;
  opened[fd].at = to + (from == 0 ? 0 : from == 1 ? opened[fd].at : opened[fd].file->size);
  return (int64_t)opened[fd].at;
}

// struct stat: the size, and what kind it is (a file; or a terminal, so that lines come out as they are printed).
static int64_t state_of_file(uint64_t fd, uint64_t to) {
  if (fd >= kMost || (fd >= 3 && opened[fd].file == NULL)) return kBadFile;
  fill(to, 144);
  *(uint64_t *)(to + 16) = 1;
  *(uint32_t *)(to + 24) = fd < 3 ? 0020600 : 0100400;
  *(uint64_t *)(to + 48) = fd < 3 ? 0 : opened[fd].file->size;
  *(uint64_t *)(to + 56) = kPage;
  return 0;
}

// From the top of memory down; what is given back last can be taken again.
static int64_t map(uint64_t count, uint64_t flags) {
  count = (count + kPage - 1) / kPage * kPage;
  if ((flags & 0x20) == 0) return kUnknown;  // a file
  if (count > mapped - heap_limit) return kNoMemory;
  mapped -= count;
  fill(mapped, count);
  return (int64_t)mapped;
}

static int64_t grow_heap(uint64_t to) {
  if (to < heap_begin || to > heap_limit) return (int64_t)heap_end;
  if (to > heap_end) fill(heap_end, to - heap_end);
  heap_end = to;
  return (int64_t)to;
}

static int64_t random_bytes(uint64_t to, uint64_t count) {
  for (uint64_t k = 0; k < count; ++k) *(uint8_t *)(to + k) = (uint8_t)(37 * k + 11);  // the same in each run
  return (int64_t)count;
}

__attribute__((used)) static int64_t answer(const Registers *r) {
  switch (r->rax) {  // numbers of Linux on x86-64
    case 0:
      return read_file(r->rdi, r->rsi, r->rdx);
    case 1:
      print((const char *)r->rsi, r->rdx);
      return (int64_t)r->rdx;
    case 3:  // close
      if (r->rdi >= 3 && r->rdi < kMost) opened[r->rdi].file = NULL;
      return 0;
    case 5:  // fstat
      return state_of_file(r->rdi, r->rsi);
    case 262:  // newfstatat, of an open file
      return *(const char *)r->rsi == 0 ? state_of_file(r->rdi, r->rdx) : kNoEntry;
    case 8:
      return seek_file(r->rdi, r->rsi, r->rdx);
    case 9:
      return map(r->rsi, r->r10);
    case 11:  // munmap
      if (r->rdi == mapped) mapped += (r->rsi + kPage - 1) / kPage * kPage;
      return 0;
    case 12:
      return grow_heap(r->rdi);
    case 10:   // mprotect
    case 13:   // rt_sigaction
    case 14:   // rt_sigprocmask
    case 28:   // madvise
    case 202:  // futex
    case 273:  // set_robust_list
      return 0;
    case 16:  // ioctl
      return kNotTerminal;
    case 20: {  // writev
      const uint64_t *part = (const uint64_t *)r->rsi;
      int64_t all = 0;
      for (uint64_t k = 0; k < r->rdx; ++k) {
        print((const char *)part[2 * k], part[2 * k + 1]);
        all += (int64_t)part[2 * k + 1];
      }
      return all;
    }
    case 60:
    case 231:
      end(r->rdi);
    case 89:   // readlink
    case 267:  // readlinkat
      return kInvalid;
    case 158:  // arch_prctl: the thread's own data
      if (r->rdi != 0x1002) return kInvalid;
      write_msr(0xc0000100, r->rsi);
      return 0;
    case 186:  // gettid
    case 218:  // set_tid_address
    case 39:   // getpid
      return 1;
    case 257:
      return open_file((const char *)r->rsi);
    case 318:
      return random_bytes(r->rdi, r->rsi);
    default:
      return kUnknown;
  }
}

// --- the program ------------------------------------------------------------------------------------
typedef struct {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, parts, sections;
  uint32_t flags;
  uint16_t size, part_size, part_count;
} Executable;
typedef struct {
  uint32_t type, flags;
  uint64_t offset, at, physical, file_bytes, memory_bytes, align;
} Part;

// Its parts where they belong; returns where the last ends.
static uint64_t place(const Executable *program) {
  uint64_t last = 0;
  const Part *part = (const Part *)((uint64_t)program + program->parts);
  for (unsigned k = 0; k < program->part_count; ++k, ++part) {
    if (part->type != 1) continue;
    copy(part->at, (uint64_t)program + part->offset, part->file_bytes);
    fill(part->at + part->file_bytes, part->memory_bytes - part->file_bytes);
    if (part->at + part->memory_bytes > last) last = part->at + part->memory_bytes;
  }
  return last;
}

// Bytes are set and copied by vectors instead of by `rep stosb`, for the same reason.
static const char kEnvironment[] =
    "GLIBC_TUNABLES=glibc.cpu.x86_rep_stosb_threshold=0x7fffffffffff:glibc.cpu.x86_rep_movsb_threshold=0x7fffffffffff";

// Linux's stack at a program's begin: its arguments, its environment, what the kernel tells.
static uint64_t *first_stack(const Executable *program, uint64_t placed_at, uint64_t top) {
  uint64_t *const stack = (uint64_t *)(top - 1024), *to = stack;
  *to++ = kTable->argument_count;
  for (uint64_t k = 0; k < kTable->argument_count; ++k) *to++ = (uint64_t)kTable->arguments[k];
  *to++ = 0;
  *to++ = (uint64_t)kEnvironment;
  *to++ = 0;
  const uint64_t tells[][2] = {{3, placed_at + program->parts},
                               {4, program->part_size},
                               {5, program->part_count},
                               {6, kPage},
                               {9, program->entry},
                               {25, (uint64_t)kTable},
                               {0, 0}};
  for (unsigned k = 0; k < sizeof tells / sizeof *tells; ++k) {
    *to++ = tells[k][0];
    *to++ = tells[k][1];
  }
  return stack;
}

typedef struct {
  uint16_t low, segment, flags, middle;
  uint32_t high, none;
} Gate;
static Gate gates[32];
extern const uint8_t kExceptions[], kCalls[];  // 16 bytes of code for each of 32 exceptions; the entry of calls

static void take_exceptions_and_calls(void) {
  for (unsigned k = 0; k < 32; ++k) {
    const uint64_t at = (uint64_t)kExceptions + 16 * k;
    gates[k] = (Gate){(uint16_t)at, 0x18, 0x8e00, (uint16_t)(at >> 16), (uint32_t)(at >> 32), 0};
  }
  const struct __attribute__((packed)) {
    uint16_t limit;
    uint64_t at;
  } table = {sizeof gates - 1, (uint64_t)gates};
  __asm__ volatile("lidt %0" : : "m"(table));
  write_msr(0xc0000081, UINT64_C(0x18) << 32);  // STAR: segments
  write_msr(0xc0000082, (uint64_t)kCalls);      // LSTAR
  write_msr(0xc0000084, 0x700);                 // flags that a call clears
}

__attribute__((noreturn, used)) static void start(void) {
  take_exceptions_and_calls();
  out8(0x3fb, 0x80);  // 115,200 baud, 8 bits
  out8(0x3f8, 1);
  out8(0x3f9, 0);
  out8(0x3fb, 3);
  read_disk(1);
  read_disk(kTable->disk_bytes);
  const uint64_t image = (uint64_t)kTable + kTable->files[0].offset;
  const Executable *program = (const Executable *)image;
  heap_begin = heap_end = (place(program) + kPage - 1) / kPage * kPage;
  mapped = kTable->memory_bytes - kStack;
  heap_limit = heap_begin + (mapped - heap_begin) / 2;
  uint64_t *stack = first_stack(program, ((const Part *)(image + program->parts))->at, kTable->memory_bytes);
  __asm__ volatile("mov %0, %%rsp\n xor %%edx, %%edx\n xor %%ebp, %%ebp\n jmp *%1" : : "r"(stack), "r"(program->entry) : "memory");
  __builtin_unreachable();
}

__asm__(
    ".section .start, \"ax\"\n"
    ".globl _start\n"
    "_start:\n"
    "  mov $0x20, %eax\n  mov %eax, %ds\n  mov %eax, %es\n  mov %eax, %ss\n"
    "  lea own_stack_end(%rip), %rsp\n"
    "  call start\n"
    ".text\n"
    ".balign 16\n"
    "kExceptions:\n"
    ".set number, 0\n"
    ".rept 32\n"
    "  .balign 16\n"
    "  .if number != 8 && (number < 10 || number > 14) && number != 17\n  push $0\n  .endif\n"  // the others push an error themselves
    "  push $number\n"
    "  jmp exception\n"
    "  .set number, number + 1\n"
    ".endr\n"
    "exception:\n"
    "  pop %rdi\n  pop %rsi\n  pop %rdx\n"
    "  lea own_stack_end(%rip), %rsp\n"
    "  call stop_at\n"
    "kCalls:\n"  // the address to return to is in rcx, the flags are in r11
    "  mov %rsp, program_stack(%rip)\n"
    "  lea own_stack_end(%rip), %rsp\n"
    "  push %r11\n  push %rcx\n"
    "  push %r9\n  push %r8\n  push %r10\n  push %rdx\n  push %rsi\n  push %rdi\n  push %rax\n"
    "  mov %rsp, %rdi\n"
    "  sub $8, %rsp\n"
    "  call answer\n"
    "  add $16, %rsp\n"
    "  pop %rdi\n  pop %rsi\n  pop %rdx\n  pop %r10\n  pop %r8\n  pop %r9\n"
    "  pop %rcx\n"
    "  popf\n"
    "  mov program_stack(%rip), %rsp\n"
    "  jmp *%rcx\n"
    ".bss\n"
    "program_stack: .skip 8\n"
    ".balign 16\n"
    "  .skip 16384\n"
    "own_stack_end:\n"
    ".text\n");
