"""Stands for what a cluster does not serve yet: whoever uses it is told so, and nothing is stored.

Protocol handlers need not know which services a cluster has. They ask the service, as on one node,
and its refusal goes the way of every other error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.cluster.facts import not_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


class Unserved:
    """A service that refuses everything, but for questions that have an answer all the same.

    Views of the whole node ask how many there are of everything; of this, there is nothing.
    """

    def __init__(self, what: str, **answers: Any) -> None:
        """Refuse in the name of `what`; `answers` are what attributes with their names hold."""
        vars(self).update(answers)
        self._what = what

    def __getattr__(self, name: str) -> Any:
        """Called for what is not among the answers."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise not_in_cluster(self._what)

    def __iter__(self) -> Iterator[Any]:
        return iter(())
