# SPDX-License-Identifier: Apache-2.0
"""The C runtime from Python: devices, sessions, arrays."""
