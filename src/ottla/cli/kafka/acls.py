"""kafka-acls: lists, adds and removes ACLs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from ottla.admin import Acl, AclFilter, Admin, Operation, PatternType, Permission, ResourceType
from ottla.cli.kafka.answers import java_error
from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import admin_properties
from ottla.cli.kafka.tool import ToolRefused, one_action, run_tool, show, tool_of
from ottla.cli.kafka.usage.acls import USAGE
from ottla.model.acls import CLUSTER_NAME, WILDCARD
from ottla.model.errors import KafkaError

UNKNOWN = 0
_RESOURCE_FLAGS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
SUPPORTED = {
    ResourceType.TOPIC: (
        *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
        *(Operation.DESCRIBE, *_CONFIGS),
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS),
    ResourceType.CLUSTER: (
        *(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION),
        *(Operation.IDEMPOTENT_WRITE, *_CONFIGS),
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that rules may name for each kind of resource, besides All."""
_READER_OR_WRITER = ("operation", "deny-principal", "deny-host")
_NOT_TOGETHER = (
    ("list", ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")),
    ("producer", _READER_OR_WRITER),
    ("consumer", _READER_OR_WRITER),
)


class Resource(NamedTuple):
    """The resource of a rule; as a filter the pattern type may also be ANY or MATCH."""

    kind: int
    name: str
    pattern: int

    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={ResourceType(self.kind).name}, name={self.name}, "
            f"patternType={PatternType(self.pattern).name})"
        )


class Entry(NamedTuple):
    """What a rule says about its resource."""

    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={Operation(self.operation).name}, "
            f"permissionType={Permission(self.permission).name})"
        )


_CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
Rules = dict[Resource, list[Entry]]


def run(arguments: Sequence[str]) -> int:
    """Run the command."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    action = _checked_action(options)
    try:
        with Admin(admin_properties(options)) as admin:
            {"add": _add, "remove": _remove, "list": _list}[action](admin, options)
    except KafkaError as error:
        show(f"Error while executing ACL command: {java_error(error)}")
        return 1
    except ToolRefused as error:
        show(f"Error while executing ACL command: {error}")
        return error.code
    return 0


def _checked_action(options: Options) -> str:
    """Return the action, if the flags make sense together. Raises the first error in Kafka's order."""
    ways = options.any_of("bootstrap-server", "bootstrap-controller")
    if len(ways) != 1:
        beginning = "Only one" if ways else "One"
        raise WrongFlags(f"{beginning} of --bootstrap-server or --bootstrap-controller must be specified")
    if ways != ["bootstrap-server"]:
        raise WrongFlags("--bootstrap-controller: brokers are asked here, give --bootstrap-server")
    action = one_action(
        options,
        ("list", "add", "remove"),
        "Command must include exactly one action: --list, --add, --remove. ",
    )
    for used, others in _NOT_TOGETHER:
        for other in options.any_of(*others) if options.has(used) else ():
            raise WrongFlags(f'Option "[{used}]" can\'t be used with option "[{other}]"')
    if options.has("principal") and action != "list":
        raise WrongFlags("The --principal option is only available if --list is set")
    if options.has("producer") and not options.has("topic"):
        raise WrongFlags("With --producer you must specify a --topic")
    if options.has("idempotent") and not options.has("producer"):
        raise WrongFlags("The --idempotent option is only available if --producer is set")
    strange = [] if options.has("producer") else options.any_of("cluster", "transactional-id")
    if options.has("consumer") and (len(options.any_of("topic", "group")) < 2 or strange):
        raise WrongFlags(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id "
            "option should be specified."
        )
    return action


# --- what is meant


def _pattern(options: Options) -> PatternType:
    name = options.text("resource-pattern-type", "literal")
    if name.upper() not in PatternType.__members__:
        kinds = "|".join(("ANY", "MATCH", "LITERAL", "PREFIXED"))
        raise WrongFlags(f"Cannot parse argument '{name}' of option resource-pattern-type: {kinds}")
    return PatternType[name.upper()]


def _resources(options: Options) -> list[Resource]:
    pattern = _pattern(options)
    resources = [
        Resource(kind, name.strip(), pattern)
        for flag, kind in _RESOURCE_FLAGS.items()
        for name in options.values(flag)
    ]
    if pattern is PatternType.LITERAL and options.any_of("cluster", "idempotent"):
        resources.append(_CLUSTER)
    return list(dict.fromkeys(resources))


def _wanted_rules(options: Options) -> Rules:
    """Return the rules of the command line; without a principal, resources have no rules."""
    resources = _resources(options)
    if not resources:
        raise WrongFlags(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    rules: Rules = {}
    roles = options.any_of("producer", "consumer")
    if not roles:
        operations = [_operation(name) for name in options.values("operation") or ["All"]]
        rules = {resource: _entries(options, operations) for resource in resources}
    for role in roles:
        for resource, operations in _needs(role, resources, options):
            entries = rules.setdefault(resource, [])
            entries += [entry for entry in _entries(options, operations) if entry not in entries]
    for resource, entries in rules.items():
        possible = (Operation.ALL, *SUPPORTED[ResourceType(resource.kind)])
        if {entry.operation for entry in entries} - {*possible}:
            names = ", ".join(operation.name for operation in possible)
            raise WrongFlags(
                f"ResourceType {ResourceType(resource.kind).name} only supports operations [{names}]"
            )
    return rules


def _needs(
    role: str, resources: Iterable[Resource], options: Options
) -> Iterable[tuple[Resource, list[int]]]:
    """Return what a producer, or a consumer, has to be allowed."""
    writing: list[int] = [Operation.WRITE, Operation.DESCRIBE]
    of_kind: dict[int, list[int]] = {
        ResourceType.TOPIC: [Operation.READ, Operation.DESCRIBE],
        ResourceType.GROUP: [Operation.READ],
    }
    if role == "producer":
        of_kind = {
            ResourceType.TOPIC: [*writing, Operation.CREATE],
            ResourceType.TRANSACTIONAL_ID: writing,
        }
        if options.has("idempotent"):
            yield _CLUSTER, [Operation.IDEMPOTENT_WRITE]
    for resource in resources:
        if resource.kind in of_kind:
            yield resource, of_kind[resource.kind]


def _entries(options: Options, operations: Iterable[int]) -> list[Entry]:
    listed: list[Entry] = []
    for word, permission in (("allow", Permission.ALLOW), ("deny", Permission.DENY)):
        principals = [_principal(text) for text in options.values(f"{word}-principal")]
        hosts = [host.strip() for host in options.values(f"{word}-host")] or [WILDCARD]
        listed += [Entry(*parts, permission) for parts in product(principals, hosts, operations)]
    return list(dict.fromkeys(listed))


def _principal(text: str) -> str:
    kind, separator, name = text.strip().partition(":")
    if not separator:
        raise ToolRefused(f"expected a string in format principalType:principalName but got {text.strip()}")
    return f"{kind}:{name}"


def _operation(name: str) -> int:
    """The number of an operation: `DescribeConfigs`, in any case."""
    words = {operation.name.replace("_", ""): operation for operation in Operation}
    return words.get(name.strip().upper(), UNKNOWN)


# --- the actions


def _found(admin: Admin, resource: Resource | None) -> Rules:
    wanted = AclFilter() if resource is None else AclFilter(resource.kind, resource.name, resource.pattern)
    rules: Rules = {}
    for acl in admin.describe_acls(wanted):
        entries = rules.setdefault(Resource(acl.resource_type, acl.name, acl.pattern), [])
        entries.append(Entry(acl.principal, acl.host, acl.operation, acl.permission))
    return rules


def _add(admin: Admin, options: Options) -> None:
    pattern = _pattern(options)
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise WrongFlags(
            f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls."
        )
    rules = _wanted_rules(options)
    if not all(rules.values()):
        raise WrongFlags(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for resource, entries in rules.items():
        present = _found(admin, resource).get(resource, [])
        for entry in entries:
            if entry in present:
                show(f"Acl (pattern={resource}, entry={entry}) already exists.")
        missing = [entry for entry in entries if entry not in present]
        if missing:
            show(f"Adding ACLs for resource `{resource}`: \n {_lines(missing)}\n")
            admin.create_acls(_acl(resource, entry) for entry in missing)


def _remove(admin: Admin, options: Options) -> None:
    for resource, entries in _wanted_rules(options).items():
        name = f"resource filter `{resource}`"
        if entries:
            question = f"Are you sure you want to remove ACLs: \n {_lines(entries)}\n from {name}? (y/n)"
        else:
            question = f"Are you sure you want to delete all ACLs for {name}? (y/n)"
        if _is_confirmed(options, question):
            filters = [AclFilter(*_acl(resource, entry)) for entry in entries]
            admin.delete_acls(filters or [AclFilter(*resource)])


def _is_confirmed(options: Options, question: str) -> bool:
    if options.has("force"):
        return True
    show(question)
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() == "y"


def _list(admin: Admin, options: Options) -> None:
    rules: Rules = {}
    resources: list[Resource | None] = [*_resources(options)]
    for resource in resources or [None]:
        rules |= _found(admin, resource)
    principals = list(dict.fromkeys(_principal(text) for text in options.values("principal")))
    if not principals:
        _print(rules)
    for principal in principals:
        show(f"ACLs for principal `{principal}`")
        mine = {
            resource: [entry for entry in entries if entry.principal == principal]
            for resource, entries in rules.items()
        }
        _print({resource: entries for resource, entries in mine.items() if entries})


def _print(rules: Rules) -> None:
    for resource, entries in rules.items():
        show(f"Current ACLs for resource `{resource}`:\n{_lines(entries)}\n")


def _acl(resource: Resource, entry: Entry) -> Acl:
    kind, name, pattern = resource
    return Acl(kind, name, pattern, entry.principal, entry.host, entry.operation, entry.permission)


def _lines(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


TOOL = tool_of(USAGE, _act)
