"""One tree of errors, a module a subject. Each class says whether a client may try again.

The tree is imported from here: `from goqueue.model.errors import UnknownTopicError`. Protocols map
classes to their own codes in one table each; nothing recognises an error by its text.
"""

from __future__ import annotations

from goqueue.model.errors.access import *
from goqueue.model.errors.backup import *
from goqueue.model.errors.base import *
from goqueue.model.errors.batches import *
from goqueue.model.errors.cluster import *
from goqueue.model.errors.delays import *
from goqueue.model.errors.groups import *
from goqueue.model.errors.metadata import *
from goqueue.model.errors.pipelines import *
from goqueue.model.errors.queues import *
from goqueue.model.errors.schemas import *
from goqueue.model.errors.storage import *
from goqueue.model.errors.tenants import *
from goqueue.model.errors.topics import *
from goqueue.model.errors.tracing import *
from goqueue.model.errors.transactions import *
from goqueue.model.errors.webhooks import *
