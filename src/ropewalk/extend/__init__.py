"""The main job: plan, measure every method, choose, write, verify, report."""

from ropewalk.extend.methods import METHODS as METHODS
from ropewalk.extend.methods import method_for as method_for
from ropewalk.extend.methods import scaling_for as scaling_for
from ropewalk.extend.plan import Plan as Plan
from ropewalk.extend.plan import plan as plan
from ropewalk.extend.run import extend as extend
