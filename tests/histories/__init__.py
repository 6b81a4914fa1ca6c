"""Random histories of a deployment of real processes, under kill -9, cut links, stops, old stores and wrong clocks.

In the order they depend on each other: `forge` starts servers quickly, `site_pair` is two of them with wires between
everybody, `history_plan` draws what happens, `people` vote and request, `troubles` strike, `verdicts` says what must
be true afterwards, `one_history` is all of that once, `theatre` plays one after another, and the package as a command
thousands of them (`make faults`).
"""
