"""
Which swarm is better?
======================

A small benchmark study: three methods, four problems, 20 runs each. One problem is shifted away from the centre of the
box and one is rotated, so that no method gains from the choice of coordinates.
"""

import tempfile

import matplotlib.pyplot as plt

import paoswarm as ps

study = ps.study.Study(
    title="Three swarms",
    problems=["sphere", "rastrigin", "rastrigin-shifted", "ellipsoid-rotated"],
    methods={"PAO": ps.PAO(), "PSO": ps.classic.PSO(), "DE": ps.classic.DE()},
    dims=[8],
    runs=20,
)

# %%
# A cell is all runs of one method on one problem. Every finished cell is written to disk. If you run the study again
# in the same folder, no cell is repeated.
results = study.run(tempfile.mkdtemp())
ps.study.figures.convergence_grid(results, 8, figure=plt.figure())
plt.show()

# %%
# The share of (run, target) pairs that are solved, against evaluations:
ps.study.figures.ecdf_plot(results, figure=plt.figure())
plt.show()

# %%
# The findings in sentences, and a table of paired tests:
print("\n".join(ps.study.findings(results)))
for c in ps.study.statistics.compare(results, results.methods):
    print(f"PAO against {c.method:4} on {c.problem:20} {c.verdict:14} ({c.decades:+.1f} decades, p = {c.p_holm:.1e})")

# %%
# ``ps.study.publish(results, folder)`` writes the interactive report. A last check: does PAO profit from an optimum at
# the centre of the box?
print(ps.study.centre_bias(ps.PAO(), runs=20))
