"""Measuring how far a language model reads. Takes callables, never a model class."""

from ropewalk.measure.curves import Curve as Curve
from ropewalk.measure.curves import crop_curve as crop_curve
from ropewalk.measure.curves import full_curve as full_curve
from ropewalk.measure.curves import per_length_curve as per_length_curve
from ropewalk.measure.documents import Documents as Documents
from ropewalk.measure.losses import LanguageModel as LanguageModel
from ropewalk.measure.losses import token_losses as token_losses
from ropewalk.measure.probe import gapped_loss as gapped_loss
from ropewalk.measure.reading import Reading as Reading
from ropewalk.measure.reading import reads_to as reads_to
from ropewalk.measure.retrieval import Retrieval as Retrieval
from ropewalk.measure.retrieval import finds_to as finds_to
from ropewalk.measure.retrieval import measure_retrieval as measure_retrieval
from ropewalk.measure.verdict import Verdict as Verdict
from ropewalk.measure.verdict import judge as judge
