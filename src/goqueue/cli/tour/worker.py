"""Take orders from the queue group `billing`; an order without a total fails.

python worker.py ADDRESS COUNT [--fixed]
"""

import json
import sys

import goqueue


def main(address: str, count: int, *, fixed: bool) -> None:
    """Process so many deliveries."""
    with (
        goqueue.Client(address) as client,
        client.queue("billing", ["orders"], prefetch=1, max_deliveries=2) as queue,
    ):
        for message in queue:
            order = json.loads(message.value or b"{}")
            said = f"order {order['id']}, delivery {message.delivery_count}"
            if "total" in order or fixed:
                message.ack()
                print(f"{said}: acknowledged")
            else:
                message.nack(delay=0.1, reason="no total")
                print(f"{said}: failed, no total")
            count -= 1
            if count == 0:
                break


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), fixed="--fixed" in sys.argv)
