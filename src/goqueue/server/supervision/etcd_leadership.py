"""Moving the leadership of etcd away from a member that is about to stop.

etcd would do it itself, but only when all watches of its clients have ended, which those of the
other nodes do not. Without it the others find out after an election timeout.
"""

from __future__ import annotations

import http.client
import json
import logging
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from goqueue.server.etcd.command import EtcdTls

logger = logging.getLogger(__name__)

_ANSWER_S: Final = 1.0
"""What one request may take: a stop does not wait for members that are away."""
_TRANSFERS: Final = 2
"""Members that are asked to take over, one after the other."""


def move_leadership(url: str, tls: EtcdTls | None) -> None:
    """Let another member lead, if the one at `url` does; whatever fails is left to an election."""
    try:
        header = _ask(url, tls, "/v3/maintenance/status")
        own = header["header"]["member_id"]
        if header.get("leader") != own:
            return
        members = _ask(url, tls, "/v3/cluster/member/list")["members"]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        logger.info("etcd: not asked whether it leads: %s", error)
        return
    others = [each for each in members if each["ID"] != own and not each.get("isLearner")]
    for member in others[:_TRANSFERS]:
        try:
            _ask(url, tls, "/v3/maintenance/transfer-leadership", {"targetID": member["ID"]})
        except (OSError, http.client.HTTPException, ValueError) as error:
            logger.info("etcd: %s does not take over: %s", member.get("name"), error)
        else:
            logger.info("etcd: %s leads now", member.get("name"))
            return


def _ask(url: str, tls: EtcdTls | None, path: str, body: dict[str, Any] | None = None) -> Any:
    """The answer of etcd's JSON gateway.

    Raises:
        OSError: there is none, or it is an error.
    """
    place = urlsplit(url)
    host, port = place.hostname or "", place.port
    if tls is None:
        connection = http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
    else:
        context = ssl.create_default_context(cafile=tls.ca_file)
        context.load_cert_chain(tls.cert_file, tls.key_file)
        connection = http.client.HTTPSConnection(host, port, timeout=_ANSWER_S, context=context)
    try:
        connection.request("POST", path, json.dumps(body or {}))
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise OSError(f"{answer.status} {content[:200].decode(errors='replace')}")
    return json.loads(content)
