/* Exit codes that MLonMCU knows (0.9: mlonmcu/platform/mlif/mlif_target.py).
 *
 * In:   nothing.
 * Out:  EXIT_MLIF_*.
 * Next: mlif.c; the C++ that MLonMCU writes for a run includes it by this name.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LDS_MLIF_EXIT_H
#define LDS_MLIF_EXIT_H

enum { EXIT_MLIF_ERROR = 0x10, EXIT_MLIF_INVALID_SIZE = 0x11, EXIT_MLIF_MISSMATCH = 0x12 };

#endif
