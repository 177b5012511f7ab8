/* The first process of the Linux guest.
 *
 * In:   an initial file system with uio.ko, uio_pdrv_genirq.ko, model.lds and inputs; runs=N, registers=NAME and bus_offset=N on the
 * kernel's command line, kills=N where processes are to be killed. Or, with programs=N there, programs 0 to N-1, each an exported
 * project, and their inputs.
 * Out:  run_cases() over the linux_uio HAL, unmodified, by this process, then by others, one after each that is killed; or the outputs of
 *       each program; then the machine is off.
 * Next: run_cases.c.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lds_hal_linux.h"
#include "run_cases.h"

static _Noreturn void off(const char *what) {
  if (what != NULL) printf("failed %s: %s\n", what, strerror(errno));
  fflush(stdout);
  sync();
  reboot(RB_POWER_OFF);
  for (;;) pause();
}

static void insert(const char *module, const char *parameters) {
  const int file = open(module, O_RDONLY | O_CLOEXEC);
  if (file < 0 || syscall(SYS_finit_module, file, parameters, 0) != 0) off(module);
  close(file);
}

static const uint8_t *contents(const char *path, size_t *size_bytes) {
  struct stat about;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  void *bytes;
  if (file < 0 || fstat(file, &about) != 0) off(path);
  *size_bytes = (size_t)about.st_size;
  bytes = mmap(NULL, *size_bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED) off(path);
  close(file);
  return bytes;
}

/* The text of a small file of the kernel's, until the next call. */
static char *text_of(const char *path) {
  static char text[2048];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (got < 0) off(path);
  close(file);
  text[got] = 0;
  return text;
}

/* What stands after NAME= on the kernel's command line. */
static char *option(const char *name) {
  char *value = strstr(text_of("/proc/cmdline"), name);
  if (value == NULL) {
    errno = EINVAL;
    off(name);
  }
  value += strlen(name);
  value[strcspn(value, " \n")] = 0;
  return value;
}

/* Interrupts that came so far. */
static unsigned long events_of(const char *device) { return strtoul(text_of(device), NULL, 10); }

static uint32_t interrupts(void) { return (uint32_t)events_of("/sys/class/uio/uio0/event"); }

static void print(const char *text) {
  fputs(text, stdout);
  if (strchr(text, '\n') != NULL) fflush(stdout);
}

static void mount_all(void) {
  if (mount("none", "/dev", "devtmpfs", 0, NULL) != 0 && errno != EBUSY) off("/dev");
  if (mount("none", "/proc", "proc", 0, NULL) != 0) off("/proc");
  if (mount("none", "/sys", "sysfs", 0, NULL) != 0) off("/sys");
}

static unsigned long registers_of(const char *map) { return strtoul(text_of(map), NULL, 0); }

/* Runs /programN on the device, or on both, that with the lower registers first, and prints what it wrote. */
static void run_program(char number) {
  static const char map0[] = "/sys/class/uio/uio0/maps/map0/addr", map1[] = "/sys/class/uio/uio1/maps/map0/addr";
  char program[] = "/program0", input[] = "/inputs0", output[] = "/output0", first[] = "uio:/dev/uio0", second[] = "uio:/dev/uio1";
  const int both = access(map1, F_OK) == 0;
  const int swapped = both && registers_of(map1) < registers_of(map0); /* the kernel numbers them as it finds them */
  char *const arguments[] = {program, swapped ? second : first, input, output, !both ? NULL : swapped ? first : second, NULL};
  const uint8_t *bytes;
  size_t size_bytes, k;
  int status = -1;
  program[8] = input[7] = output[7] = number;
  if (fork() == 0) {
    execv(program, arguments);
    off(program);
  }
  (void)wait(&status);
  printf("program %c status %d output ", number, status);
  if (status == 0) {
    bytes = contents(output, &size_bytes);
    for (k = 0; k < size_bytes; ++k) printf("%02x", bytes[k]);
  }
  print("\n");
}

static void run_programs(uint32_t count) {
  uint32_t k;
  for (k = 0; k < count; ++k) run_program((char)('0' + k));
  if (access("/sys/class/uio/uio1", F_OK) == 0)
    printf("events %lu %lu\n", events_of("/sys/class/uio/uio0/event"), events_of("/sys/class/uio/uio1/event"));
  print("done\n");
  off(NULL);
}

/* Opens the device for this process. */
static int open_device(board *b, lds_linux *uio) {
  const size_t page_bytes = b->registers == &lds_registers_hls ? 0x4000u : 0x1000u;
  b->hal = &uio->hal;
  return lds_linux_open_uio(uio, "/dev/uio0", page_bytes, NULL, strtoull(option("bus_offset="), NULL, 0), NULL);
}

/* --- two processes; one that is killed in the middle of a run ------------------------------------------------------------------ */
static int told; /* where tell() writes */

static void tell(const char *text) {
  if (write(told, text, strlen(text)) < 0) _exit(1);
}

/* In a process of its own; 0 for the other one, which has forked. */
static pid_t begin(board *b, uint32_t runs, void (*say)(const char *text)) {
  static lds_linux uio;
  const pid_t process = fork();
  if (process != 0) return process;
  b->runs = runs;
  b->print = say;
  if (open_device(b, &uio) != LDS_HAL_OK) {
    say(uio.message);
    say("\n");
    _exit(1);
  }
  _exit(run_cases(b) == 0 ? 0 : 1);
}

/* The lines of a process until its run `last` has begun. */
static void read_until_run(int from, unsigned last) {
  char wanted[32], line[256];
  size_t length = 0;
  (void)snprintf(wanted, sizeof wanted, "run %u begin", last);
  for (;;) {
    if (read(from, line + length, 1) != 1) off("the other process");
    if (line[length] != '\n') {
      if (length < sizeof line - 1u) ++length; /* outputs are long */
      continue;
    }
    line[length] = 0;
    length = 0;
    if (strcmp(line, wanted) == 0) return;
  }
}

/* One process runs for ever, and is killed as a run has begun or a little later; meanwhile another one wants the device, and behind it
 * the next has it. */
static void kill_one(board *b, unsigned number) {
  int ends[2];
  pid_t process;
  if (pipe(ends) != 0) off("pipe");
  told = ends[1];
  process = begin(b, UINT32_MAX, tell);
  read_until_run(ends[0], number);
  if (number == 0) (void)waitpid(begin(b, 1, print), NULL, 0);
  (void)usleep(1000u * number);
  (void)kill(process, SIGKILL);
  (void)waitpid(process, NULL, 0);
  close(ends[0]);
  close(ends[1]);
  printf("killed %u\n", number);
  fflush(stdout);
  (void)waitpid(begin(b, 3, print), NULL, 0);
}

int main(void) {
  static lds_linux uio;
  board b = {0};
  unsigned k, kills;
  mount_all();
  insert("/uio.ko", "");
  insert("/uio_pdrv_genirq.ko", "of_id=generic-uio");
  if (strstr(text_of("/proc/cmdline"), "programs=") != NULL) run_programs((uint32_t)strtoul(option("programs="), NULL, 0));
  b.registers = lds_registers_named(option("registers="));
  if (open_device(&b, &uio) != LDS_HAL_OK) {
    printf("failed %s\n", uio.message);
    off(NULL);
  }
  b.model = contents("/model.lds", &b.model_bytes);
  b.inputs = contents("/inputs", &b.inputs_bytes);
  b.runs = (uint32_t)strtoul(option("runs="), NULL, 0);
  b.memory_bytes = 4u << 20;
  b.memory = malloc(b.memory_bytes);
  b.print = print;
  b.interrupts = interrupts;
  if (b.memory != NULL && b.registers != NULL) (void)run_cases(&b);
  lds_linux_close(&uio);
  kills = (unsigned)strtoul(option("kills="), NULL, 0);
  for (k = 0; k < kills; ++k) kill_one(&b, k);
  off(NULL);
}
