"""The HTTP API: routes by resource, answers as JSON, problems as `application/problem+json`."""
