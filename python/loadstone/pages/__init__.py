# SPDX-License-Identifier: Apache-2.0
"""Pages: one HTML file each, that works offline; libraries, styles and data stand inside."""
