# SPDX-License-Identifier: Apache-2.0
"""The files that are generated from VTA's instruction set."""
