"""OpenID Connect: tokens of a provider, its keys, and signing in there."""
