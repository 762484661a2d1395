"""How sure a fit is: standard errors, correlations and intervals at a minimum."""
