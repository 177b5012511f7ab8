/* The C++ that MLonMCU writes for a run includes printing.h, and uses nothing of it.
 *
 * In:   nothing.
 * Out:  nothing.
 * Next: MODEL_SUPPORT_FILE.
 */
/* SPDX-License-Identifier: Apache-2.0 */
