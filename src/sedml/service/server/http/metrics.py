"""Figures for the operator's monitoring, in the text format of Prometheus.

Labels are route templates, methods, status and error codes: never an id, a name or an address.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sedml.service.server.http.connections import Connections
from sedml.service.server.node import Node
from sedml.service.server.ops import health

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class Metrics:
    """All figures of one server; two servers in one process do not mix."""

    def __init__(self, node: Node, connections: Connections) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._requests = Counter(
            "sedml_http_requests", "Requests answered.", ["route", "method", "status"], registry=registry
        )
        self._seconds = Histogram(
            "sedml_http_request_seconds", "Time to answer.", ["route", "method"], buckets=_SECONDS, registry=registry
        )
        self._refused = Counter("sedml_http_refused", "Requests refused, by error code.", ["code"], registry=registry)
        self._received = Counter("sedml_http_received_bytes", "Bytes of request bodies.", registry=registry)
        self.in_flight = Gauge("sedml_http_requests_in_flight", "Requests being answered.", registry=registry)
        registry.register(_Figures(node, connections))

    def count(self, route: str, method: str, status: int, seconds: float, received: int, code: str | None) -> None:
        """Put one request on the books."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route, method).observe(seconds)
        self._received.inc(received)
        if code is not None:
            self._refused.labels(code).inc()

    def text(self) -> bytes:
        """All figures as they are now."""
        return generate_latest(self.registry)


class _Figures(Collector):
    """What the core knows of itself, asked for at every scrape."""

    def __init__(self, node: Node, connections: Connections) -> None:
        self._node = node
        self._connections = connections

    def collect(self) -> Iterable[Metric]:
        by_label = {
            "jobs_": GaugeMetricFamily("sedml_jobs", "Jobs by state.", labels=["state"]),
            "certificate_expires_seconds_": GaugeMetricFamily(
                "sedml_certificate_expires_seconds",
                "When a certificate, or the list of those revoked, expires, in seconds since 1970.",
                labels=["certificate"],
            ),
            "budget_used_ratio_": GaugeMetricFamily(
                "sedml_budget_used_ratio",
                "Which part of a cohort's privacy budget is spent or reserved.",
                labels=["cohort"],
            ),
        }
        for name, value in health.figures(self._node).items():
            prefix = next((prefix for prefix in by_label if name.startswith(prefix)), None)
            if prefix is not None:
                by_label[prefix].add_metric([name.removeprefix(prefix)], value)
            elif name.endswith("_total"):
                yield CounterMetricFamily(f"sedml_{name}", _sentence(name.removesuffix("_total")), value)
            else:
                yield GaugeMetricFamily(f"sedml_{name}", _sentence(name), value)
        yield from by_label.values()
        yield GaugeMetricFamily("sedml_http_connections", "Connections of clients.", len(self._connections))
        yield CounterMetricFamily(
            "sedml_http_connections_refused", "Connections cut since there were too many.", self._connections.refused
        )


def _sentence(name: str) -> str:
    return name.replace("_", " ").capitalize() + "."
