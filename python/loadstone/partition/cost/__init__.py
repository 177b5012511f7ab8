"""The cost-based partition: candidates, prices, search."""
