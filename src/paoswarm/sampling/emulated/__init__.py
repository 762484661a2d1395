"""Posteriors from few simulations: an emulator proposes, simulated values decide."""
