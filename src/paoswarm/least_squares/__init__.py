"""Nonlinear least squares without derivatives: laws of the noise, and Gauss-Newton searches that share their points."""
