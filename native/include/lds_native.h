/* The library's functions for the compiler. They are exported for Python only.
 *
 * In:   nothing.
 * Out:  LDS_NATIVE_EXPORT.
 * Next: the other headers of this folder.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_NATIVE_H
#define LDS_NATIVE_H

#if defined(LDS_CDEF) || !defined(__GNUC__)
#define LDS_NATIVE_EXPORT
#else
#define LDS_NATIVE_EXPORT __attribute__((visibility("default")))
#endif

#endif /* LDS_NATIVE_H */
