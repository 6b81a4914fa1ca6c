"""Attacks on the servers: both of them in this process, set up for each test."""

from __future__ import annotations

from support.two_servers import deployed, server_settings

__all__ = ["deployed", "server_settings"]
