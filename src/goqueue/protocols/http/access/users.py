"""Users, roles, and who has which role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.access.credentials import check_user_name
from goqueue.access.roles import BUILT_IN, Role
from goqueue.protocols.http.access.access_shapes import (
    NameDeleted,
    RoleBody,
    RoleInfo,
    RoleList,
    RolePath,
    RolesBody,
    UserBody,
    UserInfo,
    UserList,
    UserPath,
)
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import ALTER, DESCRIBE, on_cluster
from goqueue.protocols.http.api.route import route

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

_TAG: Final = "access"


class UserRoutes:
    """Users, and the roles of any principal."""

    def __init__(self, broker: Broker) -> None:
        self._users = broker.users
        self._bindings = broker.access.bindings
        self._tenant_of = broker.access.tenant_of
        self._administration = broker.access_administration

    @route("GET", "/admin/users", tag=_TAG, right=on_cluster(DESCRIBE), place=LOCAL)
    async def all(self) -> UserList:
        """List users, and other principals that roles were given to."""
        names = {user.name for user in self._users.all()} | self._bindings.all.keys()
        return UserList([self._info(name) for name in sorted(names)])

    @route("PUT", "/admin/users/{user}", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def put(self, path: UserPath, body: UserBody) -> UserInfo:
        """Create a user, or change the password or the roles of one."""
        await self._administration.put_user(path.user, body.password, body.roles, body.tenant)
        return self._info(path.user)

    @route("DELETE", "/admin/users/{user}", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def delete(self, path: UserPath) -> NameDeleted:
        """Delete a user with its roles. Its open connections are refused from then on."""
        await self._administration.remove_user(path.user)
        return NameDeleted(path.user)

    @route("PUT", "/admin/users/{user}/roles", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def give_roles(self, path: UserPath, body: RolesBody) -> UserInfo:
        """Set the roles of any principal: a user, or the name in a token or a certificate."""
        check_user_name(path.user)
        await self._administration.give_roles(path.user, body.roles)
        return self._info(path.user)

    def _info(self, name: str) -> UserInfo:
        user = self._users.find(name)
        mechanisms = [] if user is None else sorted(each.value for each in user.keys)
        roles = list(self._administration.roles_of(name))
        return UserInfo(name, mechanisms, roles, self._tenant_of(name))


class RoleRoutes:
    """Roles."""

    def __init__(self, broker: Broker) -> None:
        self._administration = broker.access_administration

    @route("GET", "/admin/roles", tag=_TAG, right=on_cluster(DESCRIBE), place=LOCAL)
    async def all(self) -> RoleList:
        """List the roles, and what each allows."""
        roles = self._administration.all_roles()
        return RoleList([_role(name, role) for name, role in roles.items()])

    @route("PUT", "/admin/roles/{role}", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def put(self, path: RolePath, body: RoleBody) -> RoleInfo:
        """Create a role, or replace what it allows."""
        role = await self._administration.put_role(path.role, body.permissions, body.description)
        return _role(path.role, role)

    @route("DELETE", "/admin/roles/{role}", tag=_TAG, right=on_cluster(ALTER), place=LOCAL)
    async def delete(self, path: RolePath) -> NameDeleted:
        """Delete a role; those who have it lose what it allows."""
        await self._administration.remove_role(path.role)
        return NameDeleted(path.role)


def _role(name: str, role: Role) -> RoleInfo:
    return RoleInfo(name, list(role.permissions), role.description, name in BUILT_IN)
