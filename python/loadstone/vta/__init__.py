# SPDX-License-Identifier: Apache-2.0
"""The back end for VTA and VTA-Q."""
