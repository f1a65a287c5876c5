"""The one compiled corner: built where there is a compiler, left out where there is none."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "goqueue.records._native",
            sources=["src/goqueue/records/_native.c"],
            extra_compile_args=["-O3", "-fno-strict-aliasing"],
            optional=True,
        )
    ]
)
