"""The back end for VTA and VTA-Q."""
