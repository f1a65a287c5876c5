"""The Kafka protocol: from a TCP socket to a typed request, and back.

In the order a request travels: `listener` accepts, `connection` keeps order and bounds, `frames`
cuts the stream, `codec` parses (`schema`, `reading`; `produce_wire` and `fetch_wire` for the hot
pair), `registry` finds the handler, `codec` encodes the answer (`writing`).
"""

import sys

if "hypothesis" not in sys.modules:
    # Where it is installed kio imports it, to make test data of its types: a fifth of the time that
    # a server has to start. A module that is None cannot be imported, which kio is ready for.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # that is how it is said
    import kio.static.primitive  # noqa: F401 - so that it has its answer

    del sys.modules["hypothesis"]
