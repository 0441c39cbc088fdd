"""Members of a classic group in one thread, under one seed: their logic is real, all else is simulated.

`world` has the clock, ZooKeeper and what brokers would keep; `ottla_member` performs the effects of
`classic.member`; `scala_member` is Kafka's own consumer, written down; `scenario` draws from a seed
what happens, and checks what must hold. A seed that fails is printed and can be run again:

    python -m tests.consumer.classic.simulation --seeds 100000
    python -m tests.consumer.classic.simulation --seed 4711 --trace
"""
