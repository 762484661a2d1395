"""Engines that run whole generations in compiled code, with the objective inside."""
