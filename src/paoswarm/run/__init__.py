"""For people who minimise: `minimize`, `minimize_many`, `Optimizer`, and what they stand on."""
