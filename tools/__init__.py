# SPDX-License-Identifier: Apache-2.0
"""What only the Makefile calls: hw_sim/rtl as a circuit."""
