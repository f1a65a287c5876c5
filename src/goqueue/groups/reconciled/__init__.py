"""What groups have in common whose members the broker leads to a target: KIP-848 and Streams."""
