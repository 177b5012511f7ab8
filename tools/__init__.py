# SPDX-License-Identifier: Apache-2.0
"""Scripts for maintainers: generated files, hw_sim/rtl as a circuit, the demos' networks."""
