# SPDX-License-Identifier: Apache-2.0
"""Fuzzing with libFuzzer, ASan and UBSan: `python -m tests.fuzz [SECONDS]`."""
