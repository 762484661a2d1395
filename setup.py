"""The compiled inner loops; everything else about the package is in pyproject.toml.

They are optional: where there is no C compiler, NumPy does the same to the last bit, slower. So that the bits are the
same the compiler must not fuse a multiplication with an addition, which rounds once instead of twice.
"""

import sysconfig

from setuptools import Extension, setup

fused = Extension(
    "paoswarm.core._fused",
    ["src/paoswarm/core/_fused.c"],
    extra_compile_args=["-O3", "-ffp-contract=off", "-fno-trapping-math"],
    py_limited_api=True,
    optional=True,
)
if sysconfig.get_config_var("Py_GIL_DISABLED"):  # there is no stable ABI without the global lock yet
    setup()
else:
    setup(ext_modules=[fused], options={"bdist_wheel": {"py_limited_api": "cp311"}})
