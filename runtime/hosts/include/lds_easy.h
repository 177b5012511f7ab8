/* A network in three calls, on a machine with an operating system: open a device, open an artifact, run.
 *
 * In:   a device by its name, an artifact's file or bytes, arrays of the caller's.
 * Out:  the network's outputs; errors as one line.
 * Next: the hosts beside this file (TVM, LiteRT, ONNX Runtime) are written on these calls; so may an application be.
 *
 *     lds_easy_device *device;  lds_easy *net;  lds_easy_error error;
 *     if (lds_easy_device_open("sim", &device, &error) != LDS_OK ||
 *         lds_easy_open_file(device, "resnet8.lds", &net, &error) != LDS_OK ||
 *         lds_easy_run(net, inputs, outputs, 1, &error) != LDS_OK) puts(error.text);
 *
 * What firmware uses is runtime/include/loadstone.h: it has no heap, no files, and its port knows its device. Here memory comes from the
 * heap.
 *
 * Every function that returns int returns LDS_OK (0) or a negative LDS_ERR_*, and then says why in *error, which may be NULL.
 * Threads: any call from any thread at any time, but a network or device that is being closed is no longer used by others. Runs
 * of one device's networks wait for each other, as the device does one at a time; networks of different devices run side by side.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_EASY_H
#define LDS_EASY_H

#include "loadstone.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LDS_EASY_TEXT_BYTES = 512 };

/* One line for people; "" after LDS_OK. */
typedef struct lds_easy_error {
  int status;
  char text[LDS_EASY_TEXT_BYTES];
} lds_easy_error;

typedef struct lds_easy_device lds_easy_device;
typedef struct lds_easy lds_easy;

/* A device by its name. It is opened when its first network is, because the simulator becomes what that was compiled for.
 *
 *   sim                                   the simulator in this process
 *   null                                  a device that computes nothing: the host's own time
 *   simd:SOCKET                           a simulator that is a process of its own (`loadstone simd SOCKET`)
 *   served:SOCKET                         what another process has, beside other processes' networks (`loadstone serve DEVICE SOCKET`)
 *   uio:PATH[,UDMABUF]                    a board under Linux: registers and interrupt from a UIO device, memory from its second map
 *                                         or from u-dma-buf
 *   devmem:REGISTERS,MEMORY+BYTES         a board under Linux through /dev/mem: physical addresses
 *
 * and behind it, each after a semicolon:
 *
 *   registers=native|vta-chisel|vta-hls   the device's register page; of a board with a VTA it must be named
 *   bus_offset=N                          bus address minus physical address (default: 0)
 *   hang_ms=N                             without progress for so long it hangs (default: what its program can take)
 *   pool_mb=N                             memory of sim and null, reserved, touched when used (default: 1024; 64 where a size_t has
 *                                         32 bits)
 *   timing=FILE                           sim counts cycles by a table of lines `NAME VALUE`, the constants of docs/timing.md; those that
 *                                         are not there are VTA's own
 *   further=PATH[,PATH] (uio)             the UIO devices of further devices, NAME.1 and so on where the artifact's first one is NAME
 *
 * An artifact of several VTAs (docs/many-devices.md) gets the further ones that it has programs for: sim and null make them beside the
 * first one, with its memory; those of simd:SOCKET are at SOCKET.NAME; uio is told by further=. 16 of them are in use at a time.
 *
 * and behind served:SOCKET these alone (docs/schedule.md), with a device of this process for each network, as one waits for the other:
 *
 *   priority=N                            of several networks that wait the largest goes first (default: 0)
 *   period_us=N                           a run that is asked for earlier than that after the one before begins then (default: 0)
 *   deadline_us=N                         runs that take longer are counted (default: 0, none) */
LDS_EXPORT int lds_easy_device_open(const char *name, lds_easy_device **out, lds_easy_error *error);
/* It stays open inside until its last network is closed. NULL: nothing happens. */
LDS_EXPORT void lds_easy_device_close(lds_easy_device *device);

/* Who executes the external steps of networks that are opened from now on: `model_external` of a project that `loadstone export` wrote,
 * whose model.lds names its functions; ctx is handed through. Without one such a network does not open: LDS_ERR_EXTERNAL. */
typedef int (*lds_easy_external)(void *ctx, lds_session *session, uint32_t step);
LDS_EXPORT int lds_easy_device_external(lds_easy_device *device, lds_easy_external external, void *ctx);

/* Memory of the device, at a multiple of 64 bytes for the device and the CPU: arrays in it that lds_easy_run is given are not copied.
 * There is a device when its first network is open; before it LDS_ERR_STATE. All of it is freed before the device goes: each piece keeps
 * the device open, as a network does. */
LDS_EXPORT int lds_easy_memory_alloc(lds_easy_device *device, size_t size_bytes, void **out, lds_easy_error *error);
/* What lds_easy_memory_alloc gave; anything else: nothing happens. */
LDS_EXPORT void lds_easy_memory_free(lds_easy_device *device, void *data);
/* Whether all of these bytes are in one such piece; *bus, which may be NULL: where the device finds them. */
LDS_EXPORT int lds_easy_memory_has(lds_easy_device *device, const void *data, size_t size_bytes, uint64_t *bus);
/* One lds_easy_device_close more keeps it open. */
LDS_EXPORT void lds_easy_device_keep(lds_easy_device *device);

/* A network on a device. bytes: an artifact, which must stay until lds_easy_close. */
LDS_EXPORT int lds_easy_open(lds_easy_device *device, const void *bytes, size_t size_bytes, lds_easy **out, lds_easy_error *error);
LDS_EXPORT int lds_easy_open_file(lds_easy_device *device, const char *path, lds_easy **out, lds_easy_error *error);
/* NULL: nothing happens. */
LDS_EXPORT void lds_easy_close(lds_easy *net);

LDS_EXPORT const char *lds_easy_name(const lds_easy *net);
/* Of a model with several entries makes the one of this name the one that runs, whose inputs and outputs the functions below mean; at
 * first it is the first. Entries share the network's states. Not while another thread uses the network. */
LDS_EXPORT int lds_easy_choose(lds_easy *net, const char *name, lds_easy_error *error);
/* Samples that one run of the device takes; dims[0] of an input or output is a multiple of it. */
LDS_EXPORT uint32_t lds_easy_samples(const lds_easy *net);
LDS_EXPORT uint32_t lds_easy_input_count(const lds_easy *net);
LDS_EXPORT uint32_t lds_easy_output_count(const lds_easy *net);
LDS_EXPORT int lds_easy_input(const lds_easy *net, uint32_t index, lds_tensor *out);
LDS_EXPORT int lds_easy_output(const lds_easy *net, uint32_t index, lds_tensor *out);
/* The index of a name, or -1. */
LDS_EXPORT int lds_easy_find_input(const lds_easy *net, const char *name);
LDS_EXPORT int lds_easy_find_output(const lds_easy *net, const char *name);
/* Bytes of one sample of an input or output; 0 for an index that is not. */
LDS_EXPORT size_t lds_easy_input_bytes(const lds_easy *net, uint32_t index);
LDS_EXPORT size_t lds_easy_output_bytes(const lds_easy *net, uint32_t index);

/* Memory of the device that holds an input or output of one run: written before lds_easy_run and read after it nothing is copied.
 * NULL for an index that is not. Such a run belongs to one thread: others of the same network use the same memory. */
LDS_EXPORT void *lds_easy_input_data(lds_easy *net, uint32_t index);
LDS_EXPORT void *lds_easy_output_data(lds_easy *net, uint32_t index);

/* So many samples, of any number: the device runs as often as it takes. inputs, outputs: an array each, of lds_easy_input_bytes for
 * every sample, in the order of the artifact; NULL, or lds_easy_input_data itself: what stands there, for one run of the device. Arrays in
 * memory of lds_easy_memory_alloc are used where they are, and so is each whole run of the device in them. After an error the content
 * of outputs is undefined. */
LDS_EXPORT int lds_easy_run(lds_easy *net, const void *const *inputs, void *const *outputs, uint32_t samples, lds_easy_error *error);

/* Makes the network's states what they were when it was opened (lds_session_reset). */
LDS_EXPORT int lds_easy_reset(lds_easy *net, lds_easy_error *error);

/* Bytes that this network's runs have copied between the caller's arrays and the device's memory. */
LDS_EXPORT uint64_t lds_easy_copied_bytes(const lds_easy *net);

/* Cycles that the device took for the last lds_easy_run that ended well, several devices together; 0 before it, of a device without
 * counters, and of sim without timing=FILE. */
LDS_EXPORT uint64_t lds_easy_cycles(const lds_easy *net);

/* Of a network at served:SOCKET: how long its last run took there, from its release to its end, and how many of its runs took longer than
 * deadline_us. In cycles: of all blocks that ended meanwhile, one that had begun before whole, as devices count them; `loadstone bound`
 * says the most. Of others 0. */
LDS_EXPORT uint64_t lds_easy_response_ns(const lds_easy *net);
LDS_EXPORT uint64_t lds_easy_response_cycles(const lds_easy *net);
LDS_EXPORT uint64_t lds_easy_missed(const lds_easy *net);

#ifdef __cplusplus
}
#endif

#endif /* LDS_EASY_H */
