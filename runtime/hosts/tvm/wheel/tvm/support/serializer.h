/* Stands in for a header that tvm/runtime/tensor.h includes, and that the wheels of apache-tvm 0.27 leave out.
 *
 * In:   nothing.
 * Out:  nothing that memory.cc uses.
 * Next: TVM's own header, where it is installed, is found first.
 */
/* SPDX-License-Identifier: Apache-2.0 */
