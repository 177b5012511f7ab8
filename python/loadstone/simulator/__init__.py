"""The simulator from Python: runs, cycles, traces, vectors, and the process that serves a
device."""
