"""Routes of the schema registry, as Confluent's clients use them."""
