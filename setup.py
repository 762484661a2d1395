"""The compiled inner loops; everything else about the package is in pyproject.toml.

They are optional: where there is no C compiler, NumPy does the same to the last bit, slower. So that the bits are the
same the compiler must not fuse a multiplication with an addition, which rounds once instead of twice.

The environment variable PAOSWARM_COMPILE decides: `always` makes a failed compilation an error, `never` makes a wheel
of Python alone, and without it the loops are compiled if that works.
"""

import os
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

COMPILE = os.environ.get("PAOSWARM_COMPILE", "")
STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")  # there is none without the global lock yet
FLAGS = {"msvc": ["/O2", "/fp:precise"], "other": ["-O3", "-ffp-contract=off", "-fno-trapping-math"]}

if COMPILE not in ("", "always", "never"):
    sys.exit(f"PAOSWARM_COMPILE is always or never, not {COMPILE!r}")
if COMPILE == "always" and not STABLE_ABI:
    sys.exit("PAOSWARM_COMPILE=always needs a Python with the global interpreter lock")


class FlagsOfTheCompiler(build_ext):
    """Each compiler has its own words for the same."""

    def build_extensions(self):
        """Choose them as soon as the compiler is known."""
        for extension in self.extensions:
            extension.extra_compile_args = FLAGS.get(self.compiler.compiler_type, FLAGS["other"])
        super().build_extensions()


class WheelOfWhatWasBuilt(bdist_wheel):
    """A wheel whose loops could not be compiled does not claim to hold any."""

    def get_tag(self):
        """Say `any` for the platform if there is nothing but Python."""
        built = self.get_finalized_command("build_ext").get_outputs()
        self.root_is_pure = not any(map(os.path.exists, built))
        return super().get_tag()


fused = Extension(
    "paoswarm.core._fused", ["src/paoswarm/core/_fused.c"], py_limited_api=True, optional=COMPILE != "always"
)
if COMPILE == "never" or not STABLE_ABI:
    setup()
else:
    setup(
        ext_modules=[fused],
        cmdclass={"build_ext": FlagsOfTheCompiler, "bdist_wheel": WheelOfWhatWasBuilt},
        options={"bdist_wheel": {"py_limited_api": "cp311"}},
    )
