"""Whole configs: how many positions learned and sinusoidal tables have for tokens, the parts of composites, presets.

Each table is that of the real model, built on the meta device; which row position 0 reads was seen in real forwards.
"""

import copy
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from external.rotary_classes import build, default_config, leaves, rotary_of
from external.test_layer_facts import stated
from huggingface_hub.errors import StrictDataclassError
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from ropewalk import RopewalkError, from_config
from ropewalk.checkpoints.presets import PRESETS
from ropewalk.checkpoints.rules import known_types, rule_for

# [table, the row of position 0] and the types: type=package.ModelClass
TABLES = """
[embeddings.position_embeddings.weight 0]
albert=albert.AlbertModel align_text_model=align.AlignTextModel bert=bert.BertModel
bert-generation=bert_generation.BertGenerationEncoder big_bird=big_bird.BigBirdModel
blip_text_model=blip.BlipTextModel chinese_clip_text_model=chinese_clip.ChineseCLIPTextModel
convbert=convbert.ConvBertModel distilbert=distilbert.DistilBertModel electra=electra.ElectraModel
ernie=ernie.ErnieModel flava_text_model=flava.FlavaTextModel fnet=fnet.FNetModel git=git.GitModel
instructblip_qformer=instructblip.InstructBlipQFormerModel
instructblipvideo_qformer=instructblipvideo.InstructBlipVideoQFormerModel layoutlm=layoutlm.LayoutLMModel
megatron-bert=megatron_bert.MegatronBertModel mobilebert=mobilebert.MobileBertModel
rembert=rembert.RemBertModel roc_bert=roc_bert.RoCBertModel splinter=splinter.SplinterModel
squeezebert=squeezebert.SqueezeBertModel tapas=tapas.TapasModel visual_bert=visual_bert.VisualBertModel
[embeddings.position_embeddings.weight pad+1]
altclip_text_model=altclip.AltRobertaModel bridgetower_text_model=bridgetower.BridgeTowerTextModel
camembert=camembert.CamembertModel clap_text_model=clap.ClapTextModel data2vec-text=data2vec.Data2VecTextModel
ibert=ibert.IBertModel layoutlmv3=layoutlmv3.LayoutLMv3Model lilt=lilt.LiltModel
longformer=longformer.LongformerModel luke=luke.LukeModel markuplm=markuplm.MarkupLMModel
roberta=roberta.RobertaModel roberta-prelayernorm=roberta_prelayernorm.RobertaPreLayerNormModel
xlm-roberta=xlm_roberta.XLMRobertaModel xlm-roberta-xl=xlm_roberta_xl.XLMRobertaXLModel xmod=xmod.XmodModel
[embeddings.position_embedding.weight 0]
aimv2_text_model=aimv2.Aimv2TextModel clip_text_model=clip.CLIPTextModel clipseg_text_model=clipseg.CLIPSegTextModel
metaclip_2_text_model=metaclip_2.MetaClip2TextModel siglip2_text_model=siglip2.Siglip2TextModel
siglip_text_model=siglip.SiglipTextModel xclip_text_model=x_clip.XCLIPTextModel
[encoder.embed_positions.weight 0]
bigbird_pegasus=bigbird_pegasus.BigBirdPegasusModel blenderbot=blenderbot.BlenderbotModel
blenderbot-small=blenderbot_small.BlenderbotSmallModel marian=marian.MarianModel led=led.LEDModel
pegasus=pegasus.PegasusModel
[wpe.weight 0]
decision_transformer=decision_transformer.DecisionTransformerGPT2Model gpt2=gpt2.GPT2Model
gpt_bigcode=gpt_bigcode.GPTBigCodeModel gpt_neo=gpt_neo.GPTNeoModel imagegpt=imagegpt.ImageGPTModel
[embeddings.position_embeddings.weight 2]
mpnet=mpnet.MPNetModel mra=mra.MraModel nystromformer=nystromformer.NystromformerModel yoso=yoso.YosoModel
[encoder.embed_positions.weight 2]
bart=bart.BartModel mbart=mbart.MBartModel mvp=mvp.MvpModel plbart=plbart.PLBartModel
[position_embeds_layer.weight 0]
clvp_decoder=clvp.ClvpDecoder coarse_acoustics=bark.BarkCoarseModel fine_acoustics=bark.BarkFineModel
semantic=bark.BarkSemanticModel
[text_model.embeddings.position_embedding.weight 0]
groupvit_text_model=groupvit.GroupViTTextModel owlv2_text_model=owlv2.Owlv2TextModel
owlvit_text_model=owlvit.OwlViTTextModel
[decoder.embed_positions.weights 0]
musicgen_decoder=musicgen.MusicgenModel musicgen_melody_decoder=musicgen_melody.MusicgenMelodyModel
[embed_positions.weight 2]
biogpt=biogpt.BioGptModel pp_formulanet_text=pp_formulanet.PPFormulaNetTextModel trocr=trocr.TrOCRDecoder
[pos_emb.weight 0]
cohere_asr=cohere_asr.CohereAsrDecoder
[decoder.embed_positions.weights pad+1]
speech_to_text=speech_to_text.Speech2TextModel
[encoder.embed_positions.weights pad+1]
m2m_100=m2m_100.M2M100Model nllb-moe=nllb_moe.NllbMoeModel
[model.embed_positions.weights pad+1]
kosmos_2_5_text_model=kosmos2_5.Kosmos2_5TextModel kosmos_2_text_model=kosmos2.Kosmos2TextModel
[position_embeddings.weight 0]
flaubert=flaubert.FlaubertModel xlm=xlm.XLMModel
[decoder.embed_positions.weight 0]
whisper=whisper.WhisperModel
[decoder.embed_positions.weight 2]
opt=opt.OPTModel
[embed_positions.weights 2]
xglm=xglm.XGLMModel
[embeddings.position_embedding 0]
videoprism_text_model=videoprism.VideoPrismTextModel
[embeddings.position_embedding.position_embedding 0]
sam3_lite_text_text_model=sam3_lite_text.Sam3LiteTextTextModel
[embeddings.position_embedding.weights 0]
tipsv2_text_model=tipsv2.Tipsv2TextModel
[embeddings.text_embeddings.position_embeddings.weight 0]
vilt=vilt.ViltModel
[encoder.embed_positions.weight pad+1]
fsmt=fsmt.FSMTModel
[encoder.position_embeddings.weight pad+1]
prophetnet=prophetnet.ProphetNetModel
[pos_emb.positional_embedding 0]
canary_decoder=canary.CanaryDecoder
[pos_encoding 0]
ctrl=ctrl.CTRLModel
[positions_embed.weight 0]
openai-gpt=openai.OpenAIGPTModel
[question_encoder.bert_model.embeddings.position_embeddings.weight 0]
dpr=dpr.DPRQuestionEncoder
"""
SETTINGS: dict[str, dict[str, Any]] = {
    "xmod": {"default_language": "en_XX"},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
}
LAYERS = re.compile(
    "^(num_hidden_layers|n_layers?|num_layers|(en|de)coder_layers|num_(en|de)coder_layers|[lrx]_layers)$"
)
COMPUTED = {"pegasus_x": "computed at every forward, for any length"}
LEAST = {"tables": 95, "composites": 140, "parts": 170, "objects": 790, "presets": 120, "spellings": 480}
FAULTS = {  # of ours
    "roformer": "rope_theta is read where rope_scaling is stated, and nobody scales a RoFormer",
    "qwen3_omni_moe:talker_config.code_predictor_config": "the talker is no part of the table",
    "qwen3_omni_moe:talker_config.text_config": "the talker is no part of the table",
}
COUNTS = dict.fromkeys(LEAST, 0)


def cases() -> Iterator[Any]:
    path = first = ""
    for word in re.findall(r"\[.*\]|\S+", TABLES):
        if word.startswith("["):
            path, first = word[1:-1].split()
        else:
            model_type, kind = word.split("=")
            yield pytest.param(model_type, kind, path, first, id=model_type)


def marked(names: Iterator[str] | list[str]) -> list[Any]:
    """Names, those of FAULTS as expected to fail."""
    marks = {name: [pytest.mark.xfail(strict=True, reason=FAULTS[name])] for name in FAULTS}
    return [pytest.param(name, marks=marks.get(name, [])) for name in names]


def built(package: str, kind: str, keys: dict[str, Any]) -> tuple[Any, torch.nn.Module]:
    folder = Path(transformers.models.__file__).parent / package
    codes = [importlib.import_module(f"transformers.models.{package}.{f.stem}") for f in folder.glob("modeling_*.py")]
    model_class = next(vars(code)[kind] for code in codes if kind in vars(code))
    config = model_class.config_class(**keys)
    with torch.device("meta"):
        return config, model_class(config)


def found(model: torch.nn.Module, path: str) -> torch.Tensor:
    owner, _, name = path.rpartition(".")
    return getattr(model.get_submodule(owner), name)


@pytest.mark.parametrize(("model_type", "kind", "path", "first"), cases())
def test_native_length_is_what_the_table_has_for_tokens(model_type, kind, path, first):
    names = rule_for(model_type).names
    key = rule_for(model_type).table["length"]
    package, model = kind.split(".")
    for length, pad in ((40, None), (56, 3)):
        defaults = config_of(package, model)().to_dict()
        keys = {
            name: 2 for name, value in defaults.items() if LAYERS.match(name) and isinstance(value, int) and value > 2
        }
        keys |= {**SETTINGS.get(model_type, {}), names.get(key, key): length}
        if pad is not None and first == "pad+1":
            keys["pad_token_id"] = pad
        config, module = built(package, model, keys)
        rows = found(module, path).shape
        start = config.pad_token_id + 1 if first == "pad+1" else int(first)
        axis = 2 if path.endswith("position_embedding.position_embedding") else 0
        assert from_config(config.to_dict()).native_length == rows[axis] - start
    COUNTS["tables"] += 1


def config_of(package: str, kind: str) -> type[PreTrainedConfig]:
    folder = Path(transformers.models.__file__).parent / package
    codes = [importlib.import_module(f"transformers.models.{package}.{f.stem}") for f in folder.glob("modeling_*.py")]
    return next(vars(code)[kind].config_class for code in codes if kind in vars(code))


def test_every_table_of_ours_is_measured():
    ours = {name for name in known_types() if rule_for(name).encoding in ("learned", "sinusoidal")}
    assert ours == {case.id for case in cases()} | set(COMPUTED)
    assert from_config(CONFIG_MAPPING["pegasus_x"]().to_dict()).native_length is None


def test_biases_are_what_the_models_hold():
    """T5's buckets in a parameter, ALiBi in a function, nothing in a model without an encoding."""
    t5 = ["t5", "mt5", "umt5", "switch_transformers", "longt5", "pop2piano"]
    assert {from_config(CONFIG_MAPPING[name]().to_dict()).main.encoding for name in t5} == {"t5"}
    for package, kind in (("t5", "T5Model"), ("umt5", "UMT5Model"), ("mt5", "MT5Model"), ("longt5", "LongT5Model")):
        _, model = built(package, kind, {"num_layers": 1})
        assert any("relative_attention_bias" in name for name, _ in model.named_parameters())
    for name in ("bloom", "mpt"):
        code = importlib.import_module(f"transformers.models.{name}.modeling_{name}")
        assert any(re.fullmatch("build_(mpt_)?alibi_tensor", one) for one in vars(code))
        assert from_config(CONFIG_MAPPING[name]().to_dict()).main.encoding == "alibi"
    for package, kind in (("mamba", "MambaModel"), ("jamba", "JambaModel")):
        _, model = built(package, kind, {"num_hidden_layers": 5})
        assert not any(re.search("rotary|position|relative", name) for name, _ in model.named_modules())
        assert from_config(CONFIG_MAPPING[package]().to_dict()).main.encoding == "none"


def read(source: Any, part: str | None = None) -> Any:
    """What is read, or the refusal."""
    try:
        spec = from_config(source, part=part)
    except RopewalkError as error:
        return str(error)
    return spec.layers, spec.native_length, spec.max_length


def test_an_object_reads_as_its_dict_and_a_composite_as_its_text_part():
    for name in known_types():
        config = default_config(name) if name in CONFIG_MAPPING else None
        if config is None:
            continue
        whole, rule = read(config.to_dict()), rule_for(name)
        assert read(config) == whole, name
        COUNTS["objects"] += 1
        if rule.main and not rule.encoding:
            assert whole == read(getattr(config, rule.main).to_dict()), name
            COUNTS["composites"] += 1


def rotating_parts() -> list[str]:
    """type:path of every part that rotates."""
    return [
        f"{name}:{path}"
        for name in known_types()
        for path, leaf in leaves(default_config(name) if rule_for(name).parts else None)
        if path and leaf.model_type and isinstance(read(leaf.to_dict()), tuple)
        if any(layer.rotates for layer in from_config(leaf.to_dict()).layers)
    ]


@pytest.mark.parametrize("where", marked(rotating_parts()))
def test_a_part_reads_as_it_does_alone(where):
    name, path = where.split(":")
    config = default_config(name)
    leaf = config
    for key in path.split("."):
        leaf = getattr(leaf, key)
    assert read(config.to_dict(), path) == read(leaf.to_dict())
    COUNTS["parts"] += 1


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.config])
def test_presets_turn_as_their_classes_do(name):
    spec = from_config(name)
    config = AutoConfig.for_model(**PRESETS[name].published_config()).get_text_config()
    peers = [peer for kind in rotary_of(config) for peer in build(kind, config)] if spec.main.rotates else []
    assert bool(peers) == spec.main.rotates
    for peer in peers:
        named = [one for one in spec.layers if peer.label in (None, one.kind, spec.rule.labels.get(one.kind))]
        layer = next(one for one in named if one.rotates)
        rope = layer.rotary(numerics="float32")
        for length in (16, spec.native_length, spec.native_length + 1, spec.max_length):
            if length not in peer.reach and length != peer.reach.stop:
                continue
            positions = torch.tensor([0, 1, length // 2, length - 1])
            theirs, ours = peer.tables(positions), rope.tables(positions, length)
            scaled = rope.frequencies(length)
            module, prefix = peer.source.module, f"{peer.label}_" if peer.label else ""
            if module is not None and hasattr(module, f"{prefix}inv_freq"):
                frequencies = getattr(module, f"{prefix}inv_freq").float()
                torch.testing.assert_close(scaled.inv_freq.unique(), frequencies.unique(), rtol=2.5e-7, atol=0)
                assert getattr(module, f"{prefix}attention_scaling") == scaled.attention_factor
            atol = 1e-6 + 1.3e-7 * length * scaled.attention_factor
            torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
            COUNTS["presets"] += 1


SPELLINGS = (
    {"rope_theta": 12_345.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
    {"rope_theta": 54_321.0, "rope_scaling": None},
    {"rope_parameters": {"rope_type": "linear", "rope_theta": 777.0, "factor": 4.0}},
)


@pytest.mark.parametrize(
    "name", marked([n for n in known_types() if rule_for(n).encoding == "rotary" and n != "musicflamingo"])
)
def test_both_spellings_read_as_the_config_that_transformers_makes_of_them(name):
    if rule_for(name).is_per_layer:
        return
    for spelling in copy.deepcopy(SPELLINGS):
        keys = {key: value for key, value in stated(name).items() if key != "rope_parameters"} | spelling
        try:
            own = copy.deepcopy(keys)  # a config writes into what it is given
            config = CONFIG_MAPPING[name](**{key: value for key, value in own.items() if key != "model_type"})
        except (StrictDataclassError, ValueError, KeyError, TypeError, AttributeError):
            continue  # transformers takes no such config
        assert read(keys) == read(config), spelling
        COUNTS["spellings"] += 1


def test_how_much_was_compared():
    print("\n" + ", ".join(f"{count} {name}" for name, count in COUNTS.items()))
    if all(COUNTS.values()):  # not where a few tests alone are asked for
        assert all(COUNTS[name] >= LEAST[name] for name in LEAST), COUNTS
