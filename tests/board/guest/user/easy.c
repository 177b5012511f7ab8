/* Runs a network on every sample of a file: ./easy DEVICE NET.lds IN OUT
 *
 * In:   a device's name, an artifact with one input and one output, samples one after the other.
 * Out:  the outputs likewise; exit status 1 and a line when something fails.
 * Next: tests/test_wheels.py links it with a wheel's library.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <lds_easy.h>
#include <stdio.h>

int main(int argc, char **argv) {
  static unsigned char in[1 << 16], out[1 << 16];
  const void *inputs[] = {in};
  void *outputs[] = {out};
  lds_easy_device *device;
  lds_easy *net;
  lds_easy_error error;
  FILE *from, *to;
  if (argc != 5 || (from = fopen(argv[3], "rb")) == NULL || (to = fopen(argv[4], "wb")) == NULL) return 2;
  if (lds_easy_device_open(argv[1], &device, &error) != LDS_OK || lds_easy_open_file(device, argv[2], &net, &error) != LDS_OK) {
    return fprintf(stderr, "%s\n", error.text), 1;
  }
  if (lds_easy_input_bytes(net, 0) > sizeof in || lds_easy_output_bytes(net, 0) > sizeof out) return 2;
  while (fread(in, 1, lds_easy_input_bytes(net, 0), from) == lds_easy_input_bytes(net, 0)) {
    if (lds_easy_run(net, inputs, outputs, 1, &error) != LDS_OK) return fprintf(stderr, "%s\n", error.text), 1;
    (void)fwrite(out, 1, lds_easy_output_bytes(net, 0), to);
  }
  lds_easy_close(net);
  lds_easy_device_close(device);
  return fclose(to) != 0;
}
