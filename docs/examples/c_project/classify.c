/* Classifies an image of 32x32x3 int8 from stdin: ./classify sim resnet8.lds < image.bin
 *
 * In:   a device, an artifact, an image.
 * Out:  ten scores.
 * Next: docs/c-projects.md.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <lds_easy.h>
#include <stdio.h>

int main(int argc, char **argv) {
  static int8_t image[32 * 32 * 3], scores[10];
  const void *inputs[] = {image};
  void *outputs[] = {scores};
  lds_easy_device *device;
  lds_easy *net;
  lds_easy_error error;
  size_t k;
  if (argc != 3 || fread(image, 1, sizeof image, stdin) != sizeof image) return 2;
  if (lds_easy_device_open(argv[1], &device, &error) != LDS_OK || lds_easy_open_file(device, argv[2], &net, &error) != LDS_OK ||
      lds_easy_run(net, inputs, outputs, 1, &error) != LDS_OK) {
    return fprintf(stderr, "%s\n", error.text), 1;
  }
  for (k = 0; k < sizeof scores; ++k) printf("%d\n", scores[k]);
  lds_easy_close(net);
  lds_easy_device_close(device);
  return 0;
}
