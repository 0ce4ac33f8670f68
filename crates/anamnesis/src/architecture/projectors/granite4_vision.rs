//! Granite 4 Vision: SigLIP with a Q-Former over windows for each layer of the language model that gets its features.

use serde_json::Value;

use super::prelude::*;
use crate::architecture::value::unexpected;

const LAYERWISE: &str = "deepstack_layer_map";
const SPATIAL: &str = "spatial_target_layers";
const BOTH: &str = "deepstack_layer_map, spatial_target_layers";
const RATE: &str = "downsample_rate";

const fn of(key: &'static str, read: fn(&Config) -> Result<u64>) -> Size {
    size(read, key, "")
}
const QUERIES: Size = of(RATE, |config| Ok(sides(config)?.0.saturating_pow(2)));
const WINDOW: Size = of(RATE, |config| Ok(sides(config)?.1.saturating_pow(2)));
const INNER: Size = of("qformer_config.intermediate_size", |config| {
    config.count(&["qformer_config.intermediate_size"])?.map_or_else(|| (ANY.of)(config), Ok)
});
const COUNT: Size = of(BOTH, |config| Ok(projectors(config)?.len() as u64));

const OF_LAYERS: Stack = Stack { hf: "mm.layerwise.", gguf: "v.proj_blk.", layers: Some(COUNT) };
const OF_SPACE: Stack = Stack { hf: "mm.spatial.", gguf: "v.proj_blk.", layers: Some(COUNT) };

const fn qformer(stack: Stack, need: Need) -> [Rule; 18] {
    let rules = [
        layer("norm.*", "norm.*", &[V_HIDDEN]).biased(need),
        layer("out_linear.*", "linear.*", &[TEXT, V_HIDDEN]).biased(need),
        layer("qformer.layernorm.*", "post_norm.*", &[V_HIDDEN]).biased(need),
        attention("qformer.encoder.layer.0.attention.attention.query.*", "self_attn_q.*", need),
        attention("qformer.encoder.layer.0.attention.attention.key.*", "self_attn_k.*", need),
        attention("qformer.encoder.layer.0.attention.attention.value.*", "self_attn_v.*", need),
        attention("qformer.encoder.layer.0.attention.output.dense.*", "self_attn_out.*", need),
        layer("qformer.encoder.layer.0.attention.output.LayerNorm.*", "self_attn_norm.*", &[V_HIDDEN]).biased(need),
        attention("qformer.encoder.layer.0.crossattention.attention.query.*", "cross_attn_q.*", need),
        attention("qformer.encoder.layer.0.crossattention.attention.key.*", "cross_attn_k.*", need),
        attention("qformer.encoder.layer.0.crossattention.attention.value.*", "cross_attn_v.*", need),
        attention("qformer.encoder.layer.0.crossattention.output.dense.*", "cross_attn_out.*", need),
        layer("qformer.encoder.layer.0.crossattention.output.LayerNorm.*", "cross_attn_norm.*", &[V_HIDDEN])
            .biased(need),
        layer("qformer.encoder.layer.0.intermediate_query.dense.*", "ffn_up.*", &[INNER, V_HIDDEN]).biased(need),
        layer("qformer.encoder.layer.0.output_query.dense.*", "ffn_down.*", &[V_HIDDEN, INNER]).biased(need),
        layer("qformer.encoder.layer.0.output_query.LayerNorm.*", "ffn_norm.*", &[V_HIDDEN]).biased(need),
        layer("image_positions", "img_pos", &[ONE, WINDOW, V_HIDDEN]),
        layer("query", "query", &[ONE, QUERIES, V_HIDDEN]),
    ];
    let mut placed = rules;
    let mut place = 0;
    while place < rules.len() {
        placed[place] = rules[place].of(stack).when(need);
        place += 1;
    }
    placed
}

const fn attention(hf: &'static str, gguf: &'static str, need: Need) -> Rule {
    layer(hf, gguf, &[V_HIDDEN, V_HIDDEN]).biased(need)
}

pub(super) const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &[class("Granite4VisionForConditionalGeneration", "granite4_vision")],
    renames: &[
        Rename::Prefix("model.vision_tower.vision_model.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.vision_model.", "vision."),
        // transformers 5 saves the tower without the name inside it.
        Rename::Prefix("model.vision_tower.encoder.layers.", "vision.layers."),
        Rename::Prefix("model.vision_tower.", "vision."),
        Rename::Prefix("model.layerwise_projectors.", "mm.layerwise."),
        Rename::Prefix("model.spatial_projectors.", "mm.spatial."),
        Rename::Prefix("model.image_newline", "mm.image_newline"),
    ],
    dropped: &["vision.head."],
    numbered: &[
        ("mm.layerwise.", |config, place| number(config, false, place)),
        ("mm.spatial.", |config, place| number(config, true, place)),
    ],
    rules: &[
        CONVOLUTION,
        SIGLIP_LAYERS,
        POSITIONS_AND_NORM,
        &qformer(OF_LAYERS, Need::When(BOTH, |config, place| is_at(config, false, place))),
        &qformer(OF_SPACE, Need::When(BOTH, |config, place| is_at(config, true, place))),
        &[model("mm.image_newline", "v.image_newline", &[TEXT])],
    ],
    keys: &[
        &vision_keys(VisionSizes::USUAL),
        &[
            projector(|_| Ok(Some("granite4_vision"))),
            epsilon(|config| Ok(Some(config.real(&["vision_config.layer_norm_eps"])?.unwrap_or(1e-6)))),
            is_true("use_gelu"),
            sized("vision.preproc_image_size", IMAGE),
            count_fn("vision.projector.query_side", |config| Ok(Some(sides(config)?.0))),
            count_fn("vision.projector.window_side", |config| Ok(Some(sides(config)?.1))),
            ints_fn("vision.feature_layer", |config| {
                Ok(Some(projectors(config)?.into_iter().map(|projector| projector.vision_layer).collect()))
            }),
            ints_fn("vision.projector.spatial_offsets", |config| {
                Ok(Some(projectors(config)?.into_iter().map(|projector| projector.offset()).collect()))
            }),
            ints_fn("vision.image_grid_pinpoints", resolutions),
        ],
    ],
    ..PROJECTOR
}];

/// The query side and the window side of the Q-Formers: `downsample_rate`, such as 4/8.
fn sides(config: &Config) -> Result<(u64, u64)> {
    let text = config.text(RATE)?.unwrap_or_default();
    let side = |part: &str| part.parse::<u16>().ok().filter(|side| *side > 0).map(u64::from);
    let sides = text.split_once('/').and_then(|(query, window)| Some((side(query)?, side(window)?)));
    sides.ok_or_else(|| unexpected(RATE, &text.into(), "a fraction"))
}

/// A projector, in the order of the layers of the language model.
#[derive(Clone, Copy)]
struct Placed {
    vision_layer: i32,
    text_layer: i32,
    is_spatial: bool,
    /// Its number among those of its kind.
    number: usize,
}

impl Placed {
    /// The number of a spatial projector, and otherwise -1.
    fn offset(self) -> i32 {
        if self.is_spatial { self.number as i32 } else { -1 }
    }
}

/// The most projectors that are possible.
const MOST: usize = 256;

/// All projectors, sorted by the layers of the language model.
fn projectors(config: &Config) -> Result<Vec<Placed>> {
    let vision = (V_LAYERS.of)(config)?;
    let text = config.divisor("text_config.num_hidden_layers")?;
    let mut pairs = pairs(config, LAYERWISE)?;
    pairs.sort_unstable();
    let mut placed = Vec::new();
    for (number, [vision_layer, text_layer]) in pairs.into_iter().enumerate() {
        let vision_layer = counted(LAYERWISE, vision_layer, vision)?;
        placed.push(Placed {
            vision_layer,
            text_layer: counted(LAYERWISE, text_layer, text)?,
            is_spatial: false,
            number,
        });
    }
    let spatial = numbers(config, SPATIAL)?;
    if !spatial.is_empty() {
        let key = "spatial_vision_layer";
        let layer = config.get(key).map_or(Ok(-1), |value| whole(key, value))?;
        let vision_layer = counted(key, layer, vision)?;
        for (number, layer) in spatial.into_iter().enumerate() {
            placed.push(Placed { vision_layer, text_layer: counted(SPATIAL, layer, text)?, is_spatial: true, number });
        }
    }
    if placed.is_empty() || placed.len() > MOST {
        let why = format!("config.json: {BOTH} give {} projectors, from 1 to {MOST} are possible", placed.len());
        return Err(AnamnesisError::parse(why));
    }
    placed.sort_by_key(|projector| projector.text_layer);
    Ok(placed)
}

/// The place of a projector among all, by its number among those of its kind.
fn number(config: &Config, is_spatial: bool, number: u64) -> Result<u64> {
    let is_it = |projector: &Placed| projector.is_spatial == is_spatial && projector.number as u64 == number;
    projectors(config)?.iter().position(is_it).map(|place| place as u64).ok_or_else(|| {
        let key = if is_spatial { SPATIAL } else { LAYERWISE };
        AnamnesisError::parse(format!("config.json: {} has no item {number}", quoted(key)))
    })
}

fn is_at(config: &Config, is_spatial: bool, place: u64) -> Result<Presence> {
    let placed = projectors(config)?;
    Ok(needed_if(placed.get(place as usize).is_some_and(|projector| projector.is_spatial == is_spatial)))
}

/// The sizes of images, width before height.
fn resolutions(config: &Config) -> Result<Option<Vec<i32>>> {
    let key = "image_grid_pinpoints";
    let mut flat = Vec::new();
    for side in pairs(config, key)?.into_iter().flat_map(|[height, width]| [width, height]) {
        match i32::try_from(side).ok().filter(|side| *side > 0) {
            Some(side) => flat.push(side),
            None => return Err(unexpected(key, &side.into(), "a list of sizes")),
        }
    }
    Ok(Some(flat).filter(|flat| !flat.is_empty()))
}

/// A layer that may be counted from the end, among `count`.
fn counted(key: &str, layer: i64, count: u64) -> Result<i32> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let place = if layer < 0 { layer.saturating_add(count) } else { layer };
    let place = i32::try_from(place).ok().filter(|place| *place >= 0 && i64::from(*place) < count);
    place.ok_or_else(|| unexpected(key, &layer.into(), &format!("a layer from -{count} to {}", count - 1)))
}

fn whole(key: &str, value: &Value) -> Result<i64> {
    value.as_i64().ok_or_else(|| unexpected(key, value, "a whole number"))
}

fn numbers(config: &Config, key: &str) -> Result<Vec<i64>> {
    let Some(value) = config.get(key) else { return Ok(Vec::new()) };
    let items = value.as_array().ok_or_else(|| unexpected(key, value, "a list of layers"))?;
    items.iter().map(|item| whole(key, item)).collect()
}

fn pairs(config: &Config, key: &str) -> Result<Vec<[i64; 2]>> {
    let Some(value) = config.get(key) else { return Ok(Vec::new()) };
    let wrong = || unexpected(key, value, "a list of pairs");
    let pair = |item: &Value| match item.as_array().map(Vec::as_slice) {
        Some([first, second]) => Ok([whole(key, first)?, whole(key, second)?]),
        _ => Err(wrong()),
    };
    value.as_array().ok_or_else(wrong)?.iter().map(pair).collect()
}
