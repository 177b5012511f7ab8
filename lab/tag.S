# The tag of C++ exceptions, which zig's library for WebAssembly lacks.
#
# In:   nothing.
# Out:  __cpp_exception, which throw and catch name.
# Next: tools/lab/module.py has what else exceptions need.
# SPDX-License-Identifier: Apache-2.0
.globl __cpp_exception
.tagtype __cpp_exception i32
__cpp_exception:
