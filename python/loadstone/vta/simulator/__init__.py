# SPDX-License-Identifier: Apache-2.0
"""VTA's simulator from Python: runs, cycles, traces, vectors, the process that serves a device, and
the hardware under Verilator."""
