"""Requantization on a device that has no multiplier: constants, searched and proven."""
