"""Kits: the folder that each party of a deployment gets, with its tokens, keys and addresses.

In the order they depend on each other: `addresses` says where servers are, `folder` how files are kept for their
owner's eyes only, `trusted` whom a kit believes, `client_kit` is the kit of a teacher, a requester or an operator,
`server_kit` that of S0 or S1, `provisioning` makes the kits of a whole deployment or one that joins later, `renewal` a
server's next certificate and storage key; `inspection` looks at what a kit has.
"""

from sedml.service.kits.addresses import Address, free_ports, parse_address
from sedml.service.kits.client_kit import Access, ClientKit, confirm_token, new_token, save_token, token_hash
from sedml.service.kits.provisioning import Enrolments, enrol, load_enrolment, provision
from sedml.service.kits.renewal import forget_old_storage_key, new_storage_key, renew_certificate
from sedml.service.kits.server_kit import ServerKit, authority_fingerprint, check_private, read_credentials
from sedml.service.kits.trusted import REVOKED, keep_revoked, read_revoked, revoked_in

__all__ = [
    "REVOKED",
    "Access",
    "Address",
    "ClientKit",
    "Enrolments",
    "ServerKit",
    "authority_fingerprint",
    "check_private",
    "confirm_token",
    "enrol",
    "forget_old_storage_key",
    "free_ports",
    "keep_revoked",
    "load_enrolment",
    "new_storage_key",
    "new_token",
    "parse_address",
    "provision",
    "read_credentials",
    "read_revoked",
    "renew_certificate",
    "revoked_in",
    "save_token",
    "token_hash",
]
