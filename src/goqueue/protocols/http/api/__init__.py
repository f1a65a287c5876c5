"""What every route stands on: routing, checked requests, answers, problems, OpenAPI."""
