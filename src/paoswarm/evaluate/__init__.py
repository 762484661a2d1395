"""Evaluate the user's function: in this process, in worker processes or on other machines, recorded or not."""
