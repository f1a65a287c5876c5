"""The Kafka protocol on the network, both directions; see README.md. Nobody else imports kio."""

import sys

if "hypothesis" not in sys.modules:
    # Where it is installed kio imports it, to make test data of its types: a fifth of the time that
    # a server has to start. A module that is None cannot be imported, which kio is ready for.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # that is how it is said
    import kio.static.primitive  # noqa: F401 - so that it has its answer

    del sys.modules["hypothesis"]
