# SPDX-License-Identifier: Apache-2.0
"""Products with zeros are left out (skip_pads.py): which steps do something (live_steps.py)."""
