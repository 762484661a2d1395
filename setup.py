"""The compiled inner loops; everything else about the package is in pyproject.toml.

They are optional: where there is no C compiler, NumPy does the same to the last bit, slower. So that the bits are the
same the compiler must not fuse a multiplication with an addition, which rounds once instead of twice.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "paoswarm.core._fused",
            ["src/paoswarm/core/_fused.c"],
            extra_compile_args=["-O3", "-ffp-contract=off", "-fno-trapping-math"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
