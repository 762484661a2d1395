"""The swarms: each one file, each a pair of pure functions ``ask`` and ``tell`` over `paoswarm.core`."""
