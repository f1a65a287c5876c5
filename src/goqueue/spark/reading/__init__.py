"""Reading topics: plans on the driver, tasks that fetch, rows as Arrow."""
