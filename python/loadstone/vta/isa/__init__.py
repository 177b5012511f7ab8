# SPDX-License-Identifier: Apache-2.0
"""The instruction set: spec, codec, assembler, generated files."""
