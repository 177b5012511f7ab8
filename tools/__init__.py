# SPDX-License-Identifier: Apache-2.0
"""Scripts for maintainers: hw_sim/rtl as a circuit, the training of the demos' networks."""
