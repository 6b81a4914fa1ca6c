"""What operators look after: accounts, clocks, certificates, health, logs, and several processes of one server."""
