"""What stands for "none" in a record batch, where Kafka has -1."""

from typing import Final

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_EPOCH: Final = -1
