"""`ottla acls`: lists, adds and removes ACLs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING

from ottla.cli.connection_options import properties_of
from ottla.cli.output import Cell, OutputRows, Parser, new_parser, run_command
from ottla.model.acls import CLUSTER_NAME, Acl, AclFilter, PatternType, Permission, ResourceType
from ottla.model.permissions import Operation

if TYPE_CHECKING:
    from ottla.admin import Admin

_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def parser() -> Parser:
    """`acls` and its options."""
    parser = new_parser("acls", "List, add and remove ACLs: who may do what.")
    parser.add_argument("action", nargs="?", default="list", choices=["list", "add", "remove"])
    parser.add_argument("principal", nargs="?", help="a user: ann, User:ann, or * for all")
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help="read, write, describe, …, all")
    for kind in _KINDS:
        parser.add_argument(f"--{kind}", action="append", default=[], metavar="NAME", help="* for all")
    parser.add_argument("--cluster", action="store_true", help="the cluster itself")
    parser.add_argument("--prefixed", action="store_true", help="names are the beginnings of names")
    parser.add_argument("--host", help="only from this address")
    parser.add_argument("--deny", action="store_true", help="deny, which wins over what is allowed")
    parser.add_argument("--dry-run", action="store_true", help="change nothing")
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run the action."""
    return run_command(parser(), arguments, _act)


def _act(options: argparse.Namespace) -> OutputRows:
    from ottla.admin import Admin

    resources = _resources(options)
    operations = [_operation(name) for name in options.operations]
    principal = options.principal and (
        options.principal if ":" in options.principal else f"User:{options.principal}"
    )
    if options.action == "add" and not (resources and principal and operations):
        parser().error("who may do what? ottla acls add USER OPERATION … --topic TOPIC")
    if options.action == "remove" and not (resources or principal):
        parser().error("which rules? ottla acls remove USER, or with --topic TOPIC")
    permission = Permission.DENY if options.deny else Permission.ALLOW
    with Admin(properties_of(options)) as admin:
        if options.action == "add":
            acls = [
                Acl(kind, name or "", pattern, principal, options.host or "*", operation, permission)
                for (kind, name, pattern), operation in product(resources, operations)
            ]
            if not options.dry_run:
                admin.create_acls(acls)
            return _rows(acls)
        filters = [
            AclFilter(*resource, principal, options.host, operation, permission if options.deny else 1)
            for resource, operation in product(resources or [(1, None, 1)], operations or [Operation.ANY])
        ]
        if options.action == "list" or options.dry_run:
            return _rows(_found(admin, filters))
        return _rows(acl for some in admin.delete_acls(filters).values() for acl in some)


def _found(admin: Admin, filters: Iterable[AclFilter]) -> list[Acl]:
    return list(dict.fromkeys(acl for acl_filter in filters for acl in admin.describe_acls(acl_filter)))


def _resources(options: argparse.Namespace) -> list[tuple[int, str | None, int]]:
    pattern = PatternType.PREFIXED if options.prefixed else PatternType.LITERAL
    named: list[tuple[int, str | None, int]] = [
        (kind, name, pattern)
        for word, kind in _KINDS.items()
        for name in getattr(options, word.replace("-", "_"))
    ]
    cluster = (ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    return [*named, cluster] if options.cluster else named


def _operation(name: str) -> Operation:
    known = {operation.name.lower().replace("_", "-"): operation for operation in Operation}
    if name.lower().replace("_", "-") not in known:
        parser().error(f"operation {name!r}: there are {', '.join(known)}")
    return known[name.lower().replace("_", "-")]


def _rows(acls: Iterable[Acl]) -> OutputRows:
    columns = ("principal", "permission", "operation", "resource", "name", "pattern", "host")
    rows: list[tuple[Cell, ...]] = [
        (
            acl.principal,
            _word(Permission, acl.permission),
            _word(Operation, acl.operation),
            _word(ResourceType, acl.resource_type),
            acl.name,
            _word(PatternType, acl.pattern),
            acl.host,
        )
        for acl in acls
    ]
    return OutputRows(columns, rows)


def _word(kind: type[Permission | Operation | ResourceType | PatternType], number: int) -> str:
    return next((member.name.lower() for member in kind if member == number), str(number))
