"""What the literature says about the encodings compared: where each comes from, who uses it, how far it reads.

Numbers of different papers come from different models, data and ways of scoring: compare them within one source only.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Literature:
    """What is published about one encoding, in lines of plain text.

    Attributes:
        title: its usual name.
        paper: authors, year and arXiv number of the paper that introduced it, or that it is best known by.
        acts: where it enters the Transformer.
        learnable: "no", or "yes" and what is learned.
        used_by: public models with it.
        pros: what speaks for it.
        cons: what speaks against it.
        choose: what to choose it for.
        reported: what is published about reading beyond the training length, with the source.
    """

    title: str
    paper: str
    acts: str
    learnable: str
    used_by: str
    pros: str
    cons: str
    choose: str
    reported: str


LITERATURE: dict[str, Literature] = {
    "none": Literature(
        title="No encoding (NoPE)",
        paper="Haviv et al. 2022, arXiv 2203.16634; Kazemnejad et al. 2023, arXiv 2305.19466",
        acts="nowhere: order enters by the causal mask alone",
        learnable="no",
        used_by="Jamba, Nemotron-H, Zamba, Kimi Linear; every fourth layer of Llama 4 Scout, SmolLM3 3B, Command R7B",
        pros="nothing to compute or to run out of; best of five on small algorithmic tasks up to twice the length: "
        "mean reciprocal rank 0.69, T5 0.55, ALiBi 0.50 (arXiv 2305.19466)",
        cons="fails without a causal mask (masked LM 147.18 against 4.06); worst of four at equal length, 20.97 "
        "against 19.71 to 20.42 (arXiv 2203.16634); no head can see the previous token alone (arXiv 2410.06205)",
        choose="some layers of a model whose other layers have positions; as the baseline of an experiment",
        reported="perplexity 14.6 at 2,048, 327 at 4,096, above 1,000 at 8,192, 1.1B model trained at 2,048 "
        "(Wang et al. 2024, PG19)",
    ),
    "sinusoidal": Literature(
        title="Sinusoidal",
        paper="Vaswani et al. 2017, arXiv 1706.03762",
        acts="added to the token vectors",
        learnable="no",
        used_by="Transformer (2017), Marian, Pegasus, M2M-100, NLLB-MoE, XGLM",
        pros="no parameters, computed once, works with every attention kernel; a shift of position is a linear map",
        cons="defined at every position but breaks soon after the trained length; two frequency grids are in use "
        "(the paper's and tensor2tensor's), and they are not interchangeable",
        choose="reproducing the 2017 Transformer and its translation models; texts no longer than those trained on",
        reported="perplexity 20.05 at 512, 43.54 at 1,012, 406.01 at 15,512, trained at 512 "
        "(arXiv 2108.12409, table 2)",
    ),
    "learned": Literature(
        title="Learned table",
        paper="in the Transformer paper as an alternative: Vaswani et al. 2017, arXiv 1706.03762, table 3 row E",
        acts="added to the token vectors",
        learnable="yes: a row for each position",
        used_by="BERT (512 rows), GPT-2 (1,024), GPT-3 (2,048), OPT (2,048)",
        pros="simple, works with every attention kernel; as good as sinusoidal at equal length: perplexity 4.92 and "
        "4.92, BLEU 25.7 and 25.8 (arXiv 1706.03762, table 3)",
        cons="ends with its table: rows past the trained length are missing or untrained; behind RoPE at equal length "
        "in one comparison, 9.393 against 8.784 (EleutherAI blog, 1.4B, Pile)",
        choose="models of a fixed, short length, as BERT; loading older checkpoints",
        reported="no published number is known to us; a row past the trained length has had no training",
    ),
    "shaw": Literature(
        title="Shaw",
        paper="Shaw et al. 2018, arXiv 1803.02155",
        acts="added to the logits as query times a vector of the distance; in the paper also added to the values",
        learnable="yes: a vector for each distance, clipped at k, for keys and for values",
        used_by="SpeechT5, VITS, SeamlessM4T v2, Wav2Vec2-BERT (speech models; keys alone in most)",
        pros="what a distance is worth depends on the query; BLEU +1.3 and +0.3 over absolute positions in two "
        "translation tasks; the paper's ablation finds the keys' vectors enough",
        cons="all distances past k look alike; about 7 % slower steps in the paper; the values' term needs the "
        "attention weights, so no fused kernel runs it",
        choose="short sequences where near order matters and speed does not, as in speech models",
        reported="no published number is known to us",
    ),
    "transformer-xl": Literature(
        title="Transformer-XL",
        paper="Dai et al. 2019, arXiv 1901.02860",
        acts="added to the logits: query and a bias times the distance's sinusoid, projected; another times the key",
        learnable="yes: a projection for each head, and two biases a head",
        used_by="Transformer-XL, XLNet, Funnel Transformer; speech encoders: FastSpeech2 Conformer, Parakeet, "
        "Wav2Vec2-Conformer",
        pros="no distance is clipped, and what one is worth depends on the query; perplexity 18.3 on WikiText-103, "
        "the best of its time, with its memory of earlier segments (arXiv 1901.02860, abstract)",
        cons="no fused kernel runs it; sinusoids of distances past the trained ones were never seen; its published "
        "gains come with that memory, which is no encoding",
        choose="loading its checkpoints; speech encoders of that family",
        reported="no published perplexity by length is known to us; with its memory it depends on words 450 % farther "
        "back than a Transformer without (arXiv 1901.02860, abstract)",
    ),
    "cope": Literature(
        title="CoPE",
        paper="Golovneva et al. 2024, arXiv 2405.18719",
        acts="added to the logits: query times a vector of how many keys the query's gates have counted",
        learnable="yes: a vector for each count up to a maximum, shared by the heads",
        used_by="no public model is known to us",
        pros="can count words or sentences instead of tokens; solves selective copying, counting and Flip-Flop tasks "
        "where other encodings fail (arXiv 2405.18719, abstract)",
        cons="a sum over keys for every query, which no fused kernel runs; counts past the maximum look alike",
        choose="small models whose task is to count or to address the n-th of a kind",
        reported="no published perplexity by length is known to us",
    ),
    "t5": Literature(
        title="T5 buckets",
        paper="Raffel et al. 2019, arXiv 1910.10683",
        acts="added to the logits, which T5 does not scale",
        learnable="yes: a number for each head and bucket of distances, in T5 one table for all layers",
        used_by="T5, mT5, UMT5 (a table in every layer), Switch Transformers, LongT5",
        pros="every distance has a bucket, so longer texts meet no unknown one; improves up to twice the trained "
        "length in a small model; second of five on algorithmic tasks (arXiv 2305.19466)",
        cons="with 32 buckets all distances from 113 on are one; slow: 13.0k words per second against 26.0k of "
        "sinusoidal (arXiv 2108.12409, table 1, 2021 code); no flash attention",
        choose="encoder-decoders, and moderately longer texts where the attention kernel may be slower",
        reported="perplexity 19.65 at 512, 18.79 at 1,012, 20.41 at 2,512, 43.08 at 8,512, out of memory at 15,512, "
        "trained at 512 (arXiv 2108.12409, table 2)",
    ),
    "alibi": Literature(
        title="ALiBi",
        paper="Press, Smith and Lewis 2021, arXiv 2108.12409",
        acts="added to the logits: minus a slope times the distance",
        learnable="no: one fixed slope for each head",
        used_by="BLOOM 176B, MPT 7B, MPT 7B StoryWriter (other slopes), Falcon RW 1B",
        pros="no parameters, nearly free: 25.8k words per second against 26.0k of sinusoidal (arXiv 2108.12409, "
        "table 1); perplexity flat far beyond the trained length in the paper's small model",
        cons="not flat in BLOOM and MPT; 0 to 5.2 % in retrieval at twice the length (arXiv 2512.12167); with a "
        "sliding window no gain from longer texts; its key-index form is wrong past 256 in bfloat16",
        choose="a small model that must keep its perplexity on longer texts and need not find far tokens",
        reported="perplexity 19.73 at 512, 18.31 at 15,512, 247M trained at 512 (arXiv 2108.12409, table 2); but "
        "trained at 2,048 and read at 4,096: BLOOM 27.7 to 158, MPT 10.6 to 104 (Wang et al. 2024)",
    ),
    "kerple": Literature(
        title="KERPLE",
        paper="Chi et al. 2022, arXiv 2205.09921",
        acts="added to the logits: minus a learned kernel of the distance, logarithmic here",
        learnable="yes: two numbers for each head",
        used_by="no public model is known to us",
        pros="ALiBi's shape with slopes and bends that are learned; as a bias of the distance it needs no mask",
        cons="two more numbers to train for each head, bounded below; as ALiBi it prefers near tokens in every head",
        choose="where ALiBi would do and its slopes should fit the data",
        reported="the logarithmic form best of those compared on three corpora, trained at 512 (abstract)",
    ),
    "sandwich": Literature(
        title="Sandwich",
        paper="Chi et al. 2022, arXiv 2212.10356",
        acts="added to the logits: the product of two sinusoidal vectors, over a ratio for each head",
        learnable="no",
        used_by="no public model is known to us",
        pros="no parameters; says what sinusoidal positions amount to once their products with content are left out",
        cons="waves in the distance; as ALiBi it prefers near tokens in every head",
        choose="a bias without parameters, and the study of what ALiBi's flatness comes from",
        reported="no published table is known to us in full",
    ),
    "fire": Literature(
        title="FIRE",
        paper="Li et al. 2023, arXiv 2310.04418",
        acts="added to the logits: a learned function of the distance as a share of the query's position",
        learnable="yes: a small network, a bend and a threshold",
        used_by="no public model is known to us",
        pros="its input stays within 0 and 1 at every length; can express T5, ALiBi and KERPLE",
        cons="not a function of the distance alone, so a mask is made for every block of queries; a network to compute "
        "for every pair",
        choose="longer texts where a learned bias may cost a mask",
        reported="at least as good as the others compared, zero-shot on C4 (abstract)",
    ),
    "rope": Literature(
        title="RoPE",
        paper="Su et al. 2021, arXiv 2104.09864",
        acts="turns queries and keys, pair by pair",
        learnable="no",
        used_by="Llama 2 and 3, Qwen2, Gemma 7B, Falcon 7B (Llama 3.1 and others with a scaling on top)",
        pros="no parameters, works with every attention kernel; ahead of learned and T5 at equal length: 8.784, 9.393, "
        "9.234 (EleutherAI blog, 1.4B, Pile); many ways to extend it",
        cons="does not extrapolate by itself: angles past the trained length were never seen; longer contexts need a "
        "larger base, at least 640,000 for 32K (arXiv 2405.14591)",
        choose="a decoder of any size, read within its trained length or extended by a scaling",
        reported="perplexity 20.07 at 512, 31.58 at 2,512, 79.25 at 15,512, trained at 512 (arXiv 2108.12409, "
        "table 2); 26.68 at 1,024, 68.86 at 2,048, 458.83 at 8,192, trained at 1,024 (arXiv 2212.10554)",
    ),
    "rope-partial": Literature(
        title="RoPE, partial (25 %)",
        paper="known from GPT-J (2021) and GPT-NeoX, no paper of its own; RoPE: Su et al. 2021, arXiv 2104.09864",
        acts="turns a quarter of the features of queries and keys; the others are left alone",
        learnable="no",
        used_by="Pythia 6.9B, StableLM 3B 4E1T, GPT-J 6B (64 of 256); 40 % in Phi-2, 50 % in GLM-4 9B",
        pros="the features left alone compare content at any distance; fewer features to turn; turning about 10 % "
        "converges like turning all (arXiv 2603.11611, abstract)",
        cons="its turned features meet unseen angles as RoPE's do; not the same function as p-RoPE, which keeps the "
        "frequencies of the whole head",
        choose="loading GPT-NeoX style checkpoints; a cheaper RoPE with features free of position",
        reported="mean reciprocal rank 0.33 (none 0.69, T5 0.55, ALiBi 0.50) on 10 tasks trained to length 20, tested "
        "to 40 (arXiv 2305.19466, whose code turns 25 %); no published perplexity is known to us",
    ),
    "rope-proportional": Literature(
        title="p-RoPE (0.75)",
        paper="Barbero et al. 2024, arXiv 2410.06205",
        acts="turns queries and keys, all but the slowest quarter of the pairs",
        learnable="no",
        used_by="Gemma 4 31B with a fraction of 0.25, on every sixth layer; no public model with 0.75 is known to us",
        pros="the slow pairs carry content free of position; 4.4414 against RoPE's 4.4627 and 4.4537 of partial 0.75 "
        "at the trained length (arXiv 2410.06205, Gemma 2B, Wiki)",
        cons="a small gain: 0.0007 on the paper's second set, FlanV2; the fraction 0.25 was worse than RoPE there; the "
        "pairs that turn still meet unseen angles",
        choose="a new decoder in place of RoPE at the same cost; a step towards layers without positions",
        reported="no published number is known to us: the paper's perplexities are at the trained length, 8,192",
    ),
    "rope-window": Literature(
        title="RoPE with a sliding window",
        paper="Mistral 7B 2023, arXiv 2310.06825; RoPE: Su et al. 2021, arXiv 2104.09864",
        acts="turns queries and keys; the mask of every layer hides what lies beyond the window",
        learnable="no",
        used_by="Mistral 7B v0.1 (window 4,096); on some layers only: Gemma 2, 3 and 4, gpt-oss 20B, Command R7B",
        pros="a window within the trained length meets no unseen angle at any length; cost and cache grow with the "
        "window, not with the square of the text",
        cons="a layer sees the window only, farther tokens through the layers at best; steady perplexity is no sign "
        "that far tokens are found",
        choose="long texts where near context decides; alternating with layers that see everything",
        reported="for a window on every layer no published number is known to us; nearest: RoPE with blockwise causal "
        "attention 26.37 at 2,048, 26.16 at 8,192, trained at 1,024 (arXiv 2212.10554)",
    ),
    "xpos": Literature(
        title="xPos",
        paper="Sun et al. 2022, arXiv 2212.10554",
        acts="turns queries and keys as RoPE does, and scales them so that scores fade with distance",
        learnable="no",
        used_by="no public model is known to us",
        pros="fast pairs, which meet unseen angles first, count least far away; still no parameters, and any attention "
        "kernel runs it",
        cons="for causal attention only; factors grow with the length, so keys cannot be cached as they are turned and "
        "float16 overflows first; without a window the gain is small (27.29 at 2,048 and 63.99 at 8,192)",
        choose="reproducing LEX; decoders whose window keeps distances short",
        reported="perplexity 26.59 at 1,024, 25.53 at 2,048, 24.89 at 8,192 with blockwise causal attention, trained "
        "at 1,024; without it 27.29 at 2,048, 63.99 at 8,192 (arXiv 2212.10554, tables 4 and 5)",
    ),
}

ERRORS: tuple[tuple[str, str, str], ...] = (
    (
        "RoPE extrapolates, since it is relative.",
        "Relative is not extrapolating: perplexity 26.68 at the trained 1,024, 68.86 at 2,048, 458.83 at 8,192; "
        "in another model 20.07 at the trained 512, 31.58 at 2,512.",
        "arXiv 2212.10554; arXiv 2108.12409, table 2",
    ),
    (
        "ALiBi reads 32 or 128 times its trained length without loss.",
        "Perplexity is flat in the paper's small model, but does not improve under a sliding window; BLOOM rises from "
        "27.7 to 158 and MPT from 10.6 to 104 at twice the length, and retrieval there is 0 to 5.2 %.",
        "arXiv 2108.12409, tables 2 and 13 to 15; Wang et al. 2024; arXiv 2512.12167, table 1",
    ),
    (
        "Sinusoidal encodings extrapolate, since they are defined at every position.",
        "Perplexity 19.91 at 542, 24.86 at 712, 406.01 at 15,512, trained at 512: it degrades after 20 to 50 tokens.",
        "arXiv 2108.12409",
    ),
    (
        "Leaving the encoding out (NoPE) solves length generalization.",
        "On small tasks up to twice the length it does best; as a language model it goes from 14.6 to 327 at twice the "
        "trained length, and needs its attention rescaled head by head.",
        "arXiv 2305.19466; Wang et al. 2024",
    ),
    (
        "RoPE makes attention decay with distance.",
        "For independent Gaussian queries and keys the expected logit is 0 at every distance, and for any query and "
        "distance some key peaks there; decay shows for aligned queries and keys, and the proof gives an upper bound.",
        "arXiv 2410.06205, propositions 3.1 and 3.2; arXiv 2104.09864, section 3.4.3",
    ),
    (
        "p-RoPE is partial RoPE under another name.",
        "Partial RoPE spreads its frequencies anew over the features that turn; p-RoPE keeps the fastest of the whole "
        "head's. In one comparison at 0.75: 4.4537 and 4.4414.",
        "arXiv 2410.06205; transformers 5.23, rope_type proportional",
    ),
    (
        "Low dimensions of RoPE change slowly, high ones fast.",
        "Pair 0 is the fastest, one radian a token; the last pair is the slowest.",
        "the formula, arXiv 2104.09864",
    ),
    (
        "ALiBi's slopes are 2^(-8h/H) for any number of heads H.",
        "Only where H is a power of two; otherwise those of the power of two below, then every other slope of the "
        "power above.",
        "the ALiBi authors' code, attention_with_linear_biases 4b92f28",
    ),
    (
        "ALiBi is by Sukhbaatar et al.",
        "It is by Ofir Press, Noah A. Smith and Mike Lewis; Sukhbaatar is an author of CoPE.",
        "arXiv 2108.12409; arXiv 2405.18719",
    ),
    (
        "T5 and BERT use sinusoids.",
        "T5 has learned numbers for buckets of distances, BERT a learned table of 512 positions.",
        "arXiv 1910.10683, section 2.1; arXiv 1810.04805; transformers 5.23",
    ),
    (
        "Shaw's encoding adds a number of parameters that grows with the square of the length.",
        "The parameters are a vector for each of 2k + 1 clipped distances; only memory can grow with the square, where "
        "the vectors are gathered for every pair of tokens.",
        "tensor2tensor bafdc1b6, dot_product_attention_relative",
    ),
    (
        "Attention without an encoding is invariant to the order of the tokens.",
        "Self-attention is equivariant: shuffled tokens give shuffled outputs. With a causal mask not even that holds, "
        "and two or more causal layers can see the order.",
        "the formula; Irie",
    ),
)
