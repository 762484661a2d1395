"""Posterior draws and evidence without gradients: adapt, freeze, produce."""
