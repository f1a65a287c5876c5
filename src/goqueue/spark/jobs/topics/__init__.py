"""Jobs over whole topics: copy, archive, restore, replay, dedupe, compact, repartition."""
