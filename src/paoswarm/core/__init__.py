"""The mathematics: pure functions over arrays of shape ``(*batch, n, d)``, and nothing else."""
