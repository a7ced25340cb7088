"""What a node does about orders and ends of processes. Pure: orders in, actions and reports out.

`node_core` has what the node knows. Functions of other modules take something new and return the
`actions` that follow: `orders` of the controller, `steps` that srun asks for or that end, and in
`runs` the end of a prolog or epilog.

Everything is idempotent by (job, attempt): an order heard again is answered again, and starts
nothing twice. The edge carries out the returned actions and calls back with what became of them;
reports wait in `NodeCore.reports` until the edge has had them acknowledged.
"""
