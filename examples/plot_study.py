"""
Which swarm is better?
======================

A small benchmark study: three methods, four problems, 20 runs each. Two of the problems have been moved off the centre
of the box or turned, so that nobody wins by luck of the coordinates.
"""

import tempfile

import matplotlib.pyplot as plt

import paoswarm as ps
from paoswarm.study import figures, statistics
from paoswarm.study.findings import findings

study = ps.Study(
    title="Three swarms",
    problems=["sphere", "rastrigin", "rastrigin-shifted", "ellipsoid-rotated"],
    methods={"PAO": ps.PAO(), "PSO": ps.PSO(), "DE": ps.DE()},
    dims=[8],
    runs=20,
)

# %%
# Every finished cell is on disk at once; start it again with the same folder and nothing is repeated.
results = study.run(tempfile.mkdtemp())
figures.convergence_grid(results, 8, figure=plt.figure())
plt.show()

# %%
# How many of the (run, target) pairs are solved with how many evaluations:
figures.ecdf_plot(results, figure=plt.figure())
plt.show()

# %%
# In words, and as a table of paired tests:
print("\n".join(findings(results)))
for c in statistics.compare(results, results.methods):
    print(f"PAO against {c.method:4} on {c.problem:20} {c.verdict:14} ({c.decades:+.1f} decades, p = {c.p_holm:.1e})")

# %%
# ``publish(results, folder)`` writes the interactive report. And a last check: does PAO owe anything to an optimum at
# the centre?
print(ps.centre_bias(ps.PAO(), runs=20))
