"""Posterior draws and evidence without gradients: adapt a proposal, freeze it, draw from it."""
