"""Dead-letter queues: moving messages there, reading them, redriving them."""
