# SPDX-License-Identifier: Apache-2.0
"""All passes of the compiler: their list (table.py), who runs them, and what shows them."""
