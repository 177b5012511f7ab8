# SPDX-License-Identifier: Apache-2.0
"""Programs of any device, simulated: one interface, the machine of instruction tables behind it,
and the server of register pages."""
