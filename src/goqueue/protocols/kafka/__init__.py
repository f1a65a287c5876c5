"""The Kafka protocol: from a TCP socket to a typed request, and back.

In the order a request travels: `listener` accepts, `connection` keeps order and bounds, `frames`
cuts the stream, `codec` parses (`schema`, `reading`; `produce_wire` and `fetch_wire` for the hot
pair), `registry` finds the handler, `codec` encodes the answer (`writing`).
"""
