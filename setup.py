"""The kernel in C: built where there is a compiler, and left out where there is none. All else is in pyproject.toml."""

from __future__ import annotations

import sysconfig

from setuptools import Extension, setup

# One build runs on Python 3.11 and everything newer, and on every processor of its kind: kernel/blocks.h.
KERNEL = Extension(
    "sedml.mpc._kernel",
    sources=["kernel/module.c"],
    depends=[
        "kernel/authenticated.h",
        "kernel/ballots.h",
        "kernel/blocks.h",
        "kernel/narrow.h",
        "kernel/wide.h",
    ],
    define_macros=[("Py_LIMITED_API", "0x030b0000")],
    # Without what a debugger wants: it would name the folder of the build, and no two builds would be the same.
    extra_compile_args=["-O3", "-g0", "-Wall", "-Wextra"],
    py_limited_api=True,
    optional=True,
)

# Python without the lock knows no such builds.
LOCKED = not sysconfig.get_config_var("Py_GIL_DISABLED")

setup(
    ext_modules=[KERNEL] if LOCKED else [],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LOCKED else {},
)
