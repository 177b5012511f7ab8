# SPDX-License-Identifier: Apache-2.0
"""What a compiled model does with its time, and where its numbers go wrong: for people, as text, as
a page, as data."""
