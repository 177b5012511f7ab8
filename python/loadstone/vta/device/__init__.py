# SPDX-License-Identifier: Apache-2.0
"""One device: its file, its sizes and what they may be, its timing table.

device_file.py     keys of a file, and what a file of VTA's own leaves unsaid
timing_tables.py   constants of cycles, by name or changed
device_limits.py   what sizes and properties can be
hw_config.py       HwConfig: all of it, checked
rtl_package.py     the same for hardware: a SystemVerilog package
"""
