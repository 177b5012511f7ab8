// Implementation of stop.h.
// SPDX-License-Identifier: Apache-2.0
#include "stop.h"

#include <cstdio>

namespace lds::sim {

std::string format(const char *pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

}  // namespace lds::sim
