"""Values as typed columns: `valueFormat` says how, a schema says what.

`value_types` finds the Spark type of `value` (on the driver), `parsing` makes the parser of a task.
Each format is a sibling file with a function from bytes to Arrow. A value that does not parse is
null or an error, as `valueMode` says, and never another message's value.
"""
