//! A Llama with the names of Hugging Face.

// The derived code names the crate `burn`.
use burn_core as burn;

use burn_core::module::{Module, Param};
use burn_core::tensor::activation::{silu, softmax};
use burn_core::tensor::{Bool, Device, Int, Tensor};
use burn_nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use serde_json::Value;

/// The sizes in a `config.json`.
#[derive(Debug, Clone)]
pub struct Config {
    hidden: usize,
    inner: usize,
    layers: usize,
    heads: usize,
    key_heads: usize,
    vocabulary: usize,
    epsilon: f64,
    base: f64,
    /// The token that begins a text.
    pub first: usize,
}

impl Config {
    /// The sizes of a configuration; `None` if one is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let config: Value = serde_json::from_str(text).ok()?;
        let size = |key: &str| usize::try_from(config.get(key)?.as_u64()?).ok();
        let base = config.get("rope_theta").or_else(|| config.get("rope_parameters")?.get("rope_theta"));
        Some(Self {
            hidden: size("hidden_size")?,
            inner: size("intermediate_size")?,
            layers: size("num_hidden_layers")?,
            heads: size("num_attention_heads")?,
            key_heads: size("num_key_value_heads").or_else(|| size("num_attention_heads"))?,
            vocabulary: size("vocab_size")?,
            epsilon: config.get("rms_norm_eps").and_then(Value::as_f64).unwrap_or(1e-6),
            base: base.and_then(Value::as_f64).unwrap_or(10000.0),
            first: size("bos_token_id").unwrap_or(1),
        })
    }

    const fn head(&self) -> usize {
        self.hidden / self.heads
    }
}

#[derive(Module, Debug)]
pub struct Llama {
    model: Decoder,
    lm_head: Linear,
    #[module(skip)]
    config: Config,
}

#[derive(Module, Debug)]
struct Decoder {
    embed_tokens: Embedding,
    layers: Vec<Layer>,
    norm: Norm,
}

#[derive(Module, Debug)]
struct Layer {
    self_attn: Attention,
    mlp: FeedForward,
    input_layernorm: Norm,
    post_attention_layernorm: Norm,
}

#[derive(Module, Debug)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
}

#[derive(Module, Debug)]
struct FeedForward {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

#[derive(Module, Debug)]
struct Norm {
    weight: Param<Tensor<1>>,
}

impl Llama {
    /// A model whose parameters are to be loaded.
    pub fn new(config: &Config, device: &Device) -> Self {
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).with_bias(false).init(device);
        let norm = || Norm { weight: Param::from_tensor(Tensor::ones([config.hidden], device)) };
        let keys = config.key_heads * config.head();
        let layer = |_| Layer {
            self_attn: Attention {
                q_proj: linear(config.hidden, config.hidden),
                k_proj: linear(config.hidden, keys),
                v_proj: linear(config.hidden, keys),
                o_proj: linear(config.hidden, config.hidden),
            },
            mlp: FeedForward {
                gate_proj: linear(config.hidden, config.inner),
                up_proj: linear(config.hidden, config.inner),
                down_proj: linear(config.inner, config.hidden),
            },
            input_layernorm: norm(),
            post_attention_layernorm: norm(),
        };
        let model = Decoder {
            embed_tokens: EmbeddingConfig::new(config.vocabulary, config.hidden).init(device),
            layers: (0..config.layers).map(layer).collect(),
            norm: norm(),
        };
        Self { model, lm_head: linear(config.hidden, config.vocabulary), config: config.clone() }
    }

    /// The logits of every position, one after the other.
    pub fn forward(&self, tokens: &[usize], device: &Device) -> Vec<f32> {
        let tokens: Vec<i64> = tokens.iter().map(|&token| token as i64).collect();
        let length = tokens.len();
        let ids = Tensor::<1, Int>::from_data(tokens.as_slice(), device).reshape([1, length]);
        let rotation = Rotation::new(&self.config, length, device);
        let mut x = self.model.embed_tokens.forward(ids);
        for layer in &self.model.layers {
            let y = layer.input_layernorm.forward(x.clone(), &self.config);
            x = x + layer.self_attn.forward(y, &self.config, &rotation, device);
            let y = layer.post_attention_layernorm.forward(x.clone(), &self.config);
            let gated = silu(layer.mlp.gate_proj.forward(y.clone())) * layer.mlp.up_proj.forward(y);
            x = x + layer.mlp.down_proj.forward(gated);
        }
        let logits = self.lm_head.forward(self.model.norm.forward(x, &self.config));
        logits.into_data().try_to_vec::<f32>().unwrap_or_default()
    }

    /// The tokens that follow the first, each the most probable.
    pub fn continued(&self, count: usize, device: &Device) -> Vec<usize> {
        let mut tokens = vec![self.config.first];
        for _ in 0..count {
            let logits = self.forward(&tokens, device);
            let last = &logits[logits.len() - self.config.vocabulary..];
            let best = last.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b));
            tokens.push(best.map_or(0, |(token, _)| token));
        }
        tokens.split_off(1)
    }
}

impl Attention {
    fn forward(&self, x: Tensor<3>, config: &Config, rotation: &Rotation, device: &Device) -> Tensor<3> {
        let [_, length, _] = x.dims();
        let split = |y: Tensor<3>, heads| y.reshape([1, length, heads, config.head()]).swap_dims(1, 2);
        // Every head of keys and values serves several heads of queries.
        let shared = |y: Tensor<4>| {
            let times = config.heads / config.key_heads;
            let repeated = y.unsqueeze_dim::<5>(2).repeat_dim(2, times);
            repeated.reshape([1, config.heads, length, config.head()])
        };
        let queries = rotation.apply(split(self.q_proj.forward(x.clone()), config.heads));
        let keys = shared(rotation.apply(split(self.k_proj.forward(x.clone()), config.key_heads)));
        let values = shared(split(self.v_proj.forward(x), config.key_heads));
        let scores = queries.matmul(keys.transpose()) / (config.head() as f64).sqrt();
        let later = Tensor::<2, Bool>::tril_mask([length, length], 0, device);
        let scores = scores.mask_fill(
            later.reshape([1, 1, length, length]).expand([1, config.heads, length, length]),
            f32::NEG_INFINITY,
        );
        let mixed = softmax(scores, 3).matmul(values).swap_dims(1, 2);
        self.o_proj.forward(mixed.reshape([1, length, config.hidden]))
    }
}

impl Norm {
    fn forward(&self, x: Tensor<3>, config: &Config) -> Tensor<3> {
        let mean = (x.clone() * x.clone()).mean_dim(2);
        x / (mean + config.epsilon).sqrt() * self.weight.val().reshape([1, 1, config.hidden])
    }
}

/// The cosine and sine of every position and dimension; both halves of a head are rotated.
struct Rotation {
    cosine: Tensor<4>,
    sine: Tensor<4>,
    half: usize,
}

impl Rotation {
    fn new(config: &Config, length: usize, device: &Device) -> Self {
        let half = config.head() / 2;
        let frequency = |index: usize| config.base.powf(-(index as f64) / half as f64);
        let angle = |place: usize| (place / half) as f64 * frequency(place % half);
        let table = |function: fn(f64) -> f64| {
            let values: Vec<f32> = (0..length * half).map(|place| function(angle(place)) as f32).collect();
            Tensor::<1>::from_data(values.as_slice(), device).reshape([1, 1, length, half])
        };
        Self { cosine: table(f64::cos), sine: table(f64::sin), half }
    }

    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let (a, b) = (x.clone().narrow(3, 0, self.half), x.narrow(3, self.half, self.half));
        let rotated = |a: Tensor<4>, b: Tensor<4>, sine: Tensor<4>| a * self.cosine.clone() + b * sine;
        let first = rotated(a.clone(), b.clone(), self.sine.clone().neg());
        Tensor::cat(vec![first, rotated(b, a, self.sine.clone())], 3)
    }
}
