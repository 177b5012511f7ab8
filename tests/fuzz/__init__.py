"""Fuzzing with libFuzzer, ASan and UBSan: `python -m tests.fuzz [SECONDS]`."""
