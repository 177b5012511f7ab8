# SPDX-License-Identifier: Apache-2.0
"""Is a back end right? The same networks through it and through the reference."""
