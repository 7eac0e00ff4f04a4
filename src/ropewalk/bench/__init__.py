"""Speed, as ratios to the limit and to other people's code, measured in one run."""

from ropewalk.bench.run import bench

__all__ = ["bench"]
