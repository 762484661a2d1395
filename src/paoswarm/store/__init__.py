"""Record evaluations on disk, so that a killed run continues where it stopped."""
