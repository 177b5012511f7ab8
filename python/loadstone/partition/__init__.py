"""Who runs what: operator patterns, the eager and the cost-based partition, segments."""
