"""Side-by-side measurements with other Python clients: `python -m benchmarks [name ...] [--quick] [--json]`.

Each module registers its benchmarks with `harness.benchmark`; `__main__` imports every module of this
package, so a new benchmark is a new file.
"""
