"""Evaluations on disk: a run that is killed goes on where it was."""
