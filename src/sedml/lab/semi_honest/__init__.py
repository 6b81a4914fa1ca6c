"""Algorithm 1 between two servers that follow the protocol: what the product is measured against.

`fused` and `garbled` on randomness that the servers make themselves, with two noises as in the paper. A server that
deviates reads votes here (`tests/attacks`): nothing of a deployment imports this.
"""
