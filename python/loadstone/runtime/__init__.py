"""The C runtime from Python: devices, sessions, arrays."""
