# SPDX-License-Identifier: Apache-2.0
"""The lab: simulator, runtime and assembler as one WebAssembly module, with its page."""
