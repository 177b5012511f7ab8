# SPDX-License-Identifier: Apache-2.0
"""C projects that `loadstone export` copies: cortex-m and riscv, with what both have in
firmware; linux; module; arduino."""
