"""Jobs that only read: schema audit, lag, skew and trace reports."""
