"""The command ``paoswarm``.

.. code-block:: console

    $ paoswarm minimize model.py:cost --space space.toml --store run.paoswarm
    $ paoswarm minimize --command "./simulate {rate} {order}" --space space.toml --workers 4
    $ paoswarm sample model.py:log_likelihood --space space.toml --draws draws.csv
    $ paoswarm resume run.paoswarm
    $ paoswarm watch run.paoswarm
    $ paoswarm explore run.paoswarm
    $ paoswarm study paper --out study
    $ paoswarm audit PAO PSO
    $ paoswarm info

``paoswarm COMMAND --help`` describes each. Exit codes: 0 for success; 1 if a run ended without success; 2 for a mistake
that you can fix, which is named in one line; 130 after Ctrl-C.
"""

from paoswarm.cli.commands import main

__all__ = ["main"]
