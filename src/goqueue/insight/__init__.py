"""What operators look at: totals, history, lag, backlogs, alerts, metrics."""
