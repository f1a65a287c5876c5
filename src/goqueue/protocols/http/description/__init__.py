"""The API described by its own types: OpenAPI and Postman."""
