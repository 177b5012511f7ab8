"""One JSON file per device, and their timing tables."""
