"""What tests share: votes and blocks, servers in memory and as processes, faults, attackers, looks at disks."""
