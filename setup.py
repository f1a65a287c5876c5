"""The one compiled corner: built where there is a compiler, left out where there is none."""

from setuptools import Extension, setup

RECORDS = "src/goqueue/records"

setup(
    ext_modules=[
        Extension(
            "goqueue.records._native",
            sources=[
                f"{RECORDS}/_native.c",
                f"{RECORDS}/_native_builder.c",
                f"{RECORDS}/_native_checksum.c",
                f"{RECORDS}/_native_columns.c",
                f"{RECORDS}/_native_cut.c",
                f"{RECORDS}/_native_encode.c",
                f"{RECORDS}/_native_fetched.c",
                f"{RECORDS}/_native_hash.c",
                f"{RECORDS}/_native_input.c",
                f"{RECORDS}/_native_messages.c",
                f"{RECORDS}/_native_produced.c",
                f"{RECORDS}/_native_row.c",
            ],
            depends=[f"{RECORDS}/_native.h", f"{RECORDS}/_native_wire.h"],
            extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
            optional=True,
        )
    ]
)
