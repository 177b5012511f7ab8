# SPDX-License-Identifier: Apache-2.0
"""A processor with AVX-512 where there is none: programs on bare, emulated x86-64
(docs/performance.md)."""
