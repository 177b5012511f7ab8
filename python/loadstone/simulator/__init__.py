# SPDX-License-Identifier: Apache-2.0
"""The simulator from Python: runs, cycles, traces, vectors, and the process that serves a
device."""
