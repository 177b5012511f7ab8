# SPDX-License-Identifier: Apache-2.0
"""One device: its file, its sizes and their limits, its timing table.

device_file.py     keys of a file, and the defaults for those that VTA's own files lack
timing_tables.py   timing constants, by name or changed
device_limits.py   limits of sizes and properties
hw_config.py       HwConfig: all of it, checked
rtl_package.py     the same for hardware: a SystemVerilog package
"""
