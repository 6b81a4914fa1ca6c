"""Kits: the folder that each party of a deployment gets, with its tokens, keys and addresses.

In the order they depend on each other: `addresses` says where servers are, `folder` how files are kept for their
owner's eyes only, `trusted` whom a kit believes, `log_key` who signs logs, `client_kit` is the kit of a
teacher, a requester or an operator, `server_kit` that of S0 or S1, `provisioning` makes the kits of a whole deployment
or one that joins later, `renewal` a server's next certificate and storage key; `inspection` looks at what a kit has.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sedml.service.kits.addresses import Address, free_ports, parse_address
from sedml.service.kits.client_kit import Access, ClientKit, confirm_token, new_token, save_token, token_hash
from sedml.service.kits.log_key import certified, origin
from sedml.service.kits.trusted import REVOKED, keep_revoked, read_revoked, revoked_in

if TYPE_CHECKING:
    from sedml.service.kits.provisioning import Enrolments, enrol, load_enrolment, provision
    from sedml.service.kits.renewal import forget_old_storage_key, new_storage_key, renew_certificate
    from sedml.service.kits.server_kit import ServerKit, authority_fingerprint, check_private, read_credentials

__all__ = [
    "REVOKED",
    "Access",
    "Address",
    "ClientKit",
    "Enrolments",
    "ServerKit",
    "authority_fingerprint",
    "certified",
    "check_private",
    "confirm_token",
    "enrol",
    "forget_old_storage_key",
    "free_ports",
    "keep_revoked",
    "load_enrolment",
    "new_storage_key",
    "new_token",
    "origin",
    "parse_address",
    "provision",
    "read_credentials",
    "read_revoked",
    "renew_certificate",
    "revoked_in",
    "save_token",
    "token_hash",
]

# What servers and new kits need: whoever votes has a kit, and does not wait for it.
_LATER = {
    "provisioning": {"Enrolments", "enrol", "load_enrolment", "provision"},
    "renewal": {"forget_old_storage_key", "new_storage_key", "renew_certificate"},
    "server_kit": {"ServerKit", "authority_fingerprint", "check_private", "read_credentials"},
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as diverse as the names
    for module, names in _LATER.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
