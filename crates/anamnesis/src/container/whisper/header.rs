//! Reading the front of a file and the headers of its tensors.

use crate::byte_level;
use crate::catalog::dtype::elements;
use crate::catalog::{
    BlockType, Catalog, Dtype, Extent, Facts, MetadataArray, MetadataValue, StoredTensor, Subject, Unreadable,
};
use crate::container::cursor::{Cap, Cursor};
use crate::container::ggml_types::{GgufType, describe_unknown};
use crate::error::{AnamnesisError, Result, quoted};
use crate::limits::Budget;

/// The magic `0x67676d6c`.
const MAGIC: &[u8; 4] = b"lmgg";

/// The hyperparameters in file order, with their metadata keys.
const HYPERPARAMETERS: [&str; 11] = [
    "whisper.vocab_size",
    "whisper.encoder.context_length",
    "whisper.encoder.embedding_length",
    "whisper.encoder.attention.head_count",
    "whisper.encoder.block_count",
    "whisper.decoder.context_length",
    "whisper.decoder.embedding_length",
    "whisper.decoder.attention.head_count",
    "whisper.decoder.block_count",
    "whisper.encoder.mels_count",
    "whisper.file_type",
];
const ENCODER_BLOCKS: usize = 4;
const DECODER_BLOCKS: usize = 8;
const MEL_BANDS: usize = 9;
const FILE_TYPE: usize = 10;
/// The offset of the number of mel bands of the filters, after the hyperparameters.
const FILTER_BANDS_OFFSET: usize = 4 + 4 * HYPERPARAMETERS.len();

/// `GGML_QNT_VERSION_FACTOR` and the current `GGML_QNT_VERSION` of ggml.
const VERSION_FACTOR: u32 = 1000;
const CURRENT_VERSION: u32 = 2;

const FILTER_VALUES: Cap = Cap("MAX_FILTER_VALUES", 1 << 24);
const TOKENS: Cap = Cap("MAX_TOKENS", 1 << 24);
const TOKEN_BYTES: Cap = Cap("MAX_TOKEN_BYTES", 65_535);
const TENSORS: Cap = Cap("MAX_TENSOR_COUNT", 1_000_000);
const NAME_BYTES: Cap = Cap("MAX_TENSOR_NAME_LEN", 65_535);
const MAX_RANK: u32 = 4;

/// Whether the first bytes are those of a whisper.cpp model.
pub(super) fn is_whisper(head: &[u8]) -> bool {
    let word = |at: usize| head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let bands = word(4 + 4 * MEL_BANDS);
    head.starts_with(MAGIC) && bands.is_some_and(|bands| bands > 0) && bands == word(FILTER_BANDS_OFFSET)
}

/// The values to keep. The others are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    All,
    Hyperparameters,
}

/// The parts of a file in front of its tensors.
pub(super) struct Front {
    hyperparameters: [u32; 11],
    mel_bands: u32,
    frequencies: u32,
    filters: Vec<f32>,
    tokens: Vec<String>,
}

impl Front {
    /// The number of metadata entries.
    pub(super) fn entry_count(&self) -> usize {
        // The architecture, the shape of the filters, the filters and the vocabulary.
        HYPERPARAMETERS.len() + 5
    }

    /// The version of the block layouts: 2 since May 2023.
    fn version(&self) -> u32 {
        self.hyperparameters[FILE_TYPE] / VERSION_FACTOR
    }

    pub(super) fn entries(self) -> Vec<(String, MetadataValue)> {
        let numbers = HYPERPARAMETERS.into_iter().zip(self.hyperparameters);
        let mut entries = vec![("general.architecture".to_owned(), MetadataValue::String("whisper".to_owned()))];
        entries.extend(numbers.map(|(key, number)| (key.to_owned(), MetadataValue::U32(number))));
        let array = |array| MetadataValue::Array(Box::new(array));
        entries.extend([
            ("whisper.filters.mels_count".to_owned(), MetadataValue::U32(self.mel_bands)),
            ("whisper.filters.frequency_count".to_owned(), MetadataValue::U32(self.frequencies)),
            ("whisper.filters.data".to_owned(), array(MetadataArray::F32(self.filters))),
            ("tokenizer.ggml.tokens".to_owned(), array(MetadataArray::String(self.tokens))),
        ]);
        entries
    }

    pub(super) fn facts(&self) -> Facts {
        let [encoder, decoder] = [ENCODER_BLOCKS, DECODER_BLOCKS].map(|at| self.hyperparameters[at]);
        Facts::new("whisper.cpp model")
            .with(Subject::Model, "Arch", "whisper")
            .with(Subject::Model, "Layers", format!("{encoder} of the encoder, {decoder} of the decoder"))
            .with(Subject::Layout, "Filters", format!("{} mel bands, {} frequencies", self.mel_bands, self.frequencies))
            .with(Subject::Layout, "Block version", self.version().to_string())
    }
}

/// The tensors of the encoder, of the decoder, of each attention and of each block but for its attentions.
const ENCODER: [&str; 7] = [
    "positional_embedding",
    "conv1.weight",
    "conv1.bias",
    "conv2.weight",
    "conv2.bias",
    "ln_post.weight",
    "ln_post.bias",
];
const DECODER: [&str; 4] = ["positional_embedding", "token_embedding.weight", "ln.weight", "ln.bias"];
const ATTENTION: [&str; 9] = [
    "_ln.weight",
    "_ln.bias",
    ".query.weight",
    ".query.bias",
    ".key.weight",
    ".value.weight",
    ".value.bias",
    ".out.weight",
    ".out.bias",
];
const BLOCK: [&str; 6] = ["mlp_ln.weight", "mlp_ln.bias", "mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias"];

/// A message about the tensors that a model of these hyperparameters has and the file lacks. The file does not record
/// their number, so one that ends between two tensors shows only by this.
pub(super) fn missing(front: &Front, catalog: &Catalog) -> Option<String> {
    let block_tensors = BLOCK.len() + ATTENTION.len();
    let [encoder, decoder] = [ENCODER_BLOCKS, DECODER_BLOCKS].map(|at| front.hyperparameters[at] as usize);
    // More blocks than tensors: names would only be made to be missing.
    let listed = |blocks: usize| blocks.min(catalog.len() / block_tensors + 1);
    let attentions = |half: &'static str, block: usize, attention: &'static str| {
        ATTENTION.into_iter().map(move |end| format!("{half}.blocks.{block}.{attention}{end}"))
    };
    let block = |half: &'static str, block: usize| {
        BLOCK.into_iter().map(move |end| format!("{half}.blocks.{block}.{end}")).chain(attentions(half, block, "attn"))
    };
    let of_encoder = (0..listed(encoder)).flat_map(|number| block("encoder", number));
    let of_decoder = (0..listed(decoder))
        .flat_map(|number| block("decoder", number).chain(attentions("decoder", number, "cross_attn")));
    let outside = ENCODER.into_iter().map(|end| format!("encoder.{end}"));
    let outside = outside.chain(DECODER.into_iter().map(|end| format!("decoder.{end}")));
    let mut missing = outside.chain(of_encoder).chain(of_decoder).filter(|name| catalog.find(name).is_none());
    let first = missing.next()?;
    let others = match missing.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("tensor {}{others} of the model are not in the file, which may be cut off", quoted(&first)))
}

/// Reads everything before the tensors.
pub(super) fn read_front(cursor: &mut Cursor<'_>, keep: Keep, budget: &mut Budget) -> Result<Front> {
    if &cursor.array()? != MAGIC {
        return Err(AnamnesisError::parse("a model of whisper.cpp starts with the magic of ggml"));
    }
    let mut hyperparameters = [0; HYPERPARAMETERS.len()];
    for (value, key) in hyperparameters.iter_mut().zip(HYPERPARAMETERS) {
        *value = count(cursor, key)?;
    }
    let (mel_bands, frequencies) = (count(cursor, "mel bands")?, count(cursor, "frequencies")?);
    if mel_bands != hyperparameters[MEL_BANDS] {
        let wanted = hyperparameters[MEL_BANDS];
        return Err(AnamnesisError::parse(format!("the filters have {mel_bands} mel bands, the model has {wanted}")));
    }
    let values = u64::from(mel_bands) * u64::from(frequencies);
    FILTER_VALUES.check(values, "values of mel filters")?;
    cursor.check_remaining(values * 4)?;
    let filters = match keep {
        Keep::All => cursor.numbers(values as usize, budget, f32::from_le_bytes)?,
        Keep::Hyperparameters => {
            cursor.jump(values * 4)?;
            Vec::new()
        }
    };
    let tokens = read_tokens(cursor, keep, budget)?;
    Ok(Front { hyperparameters, mel_bands, frequencies, filters, tokens })
}

fn read_tokens(cursor: &mut Cursor<'_>, keep: Keep, budget: &mut Budget) -> Result<Vec<String>> {
    let tokens = u64::from(count(cursor, "tokens")?);
    TOKENS.check(tokens, "tokens")?;
    budget.items(tokens, "tokens")?;
    // A token takes at least its length.
    cursor.check_remaining(tokens * 4)?;
    budget.working_set(tokens * size_of::<String>() as u64, "the vocabulary")?;
    let mut kept = Cursor::with_reserved(if keep == Keep::All { tokens as usize } else { 0 });
    for _ in 0..tokens {
        let bytes = u64::from(cursor.u32()?);
        TOKEN_BYTES.check(bytes, "bytes of a token")?;
        cursor.check_remaining(bytes)?;
        budget.working_set(bytes * 2, "a token")?;
        let token = cursor.take(bytes as usize)?;
        if keep == Keep::All {
            kept.push(token.iter().map(|&byte| byte_level::character(byte)).collect());
        }
    }
    Ok(kept)
}

/// A number that cannot be negative.
fn count(cursor: &mut Cursor<'_>, what: &str) -> Result<u32> {
    let number = i32::from_le_bytes(cursor.array()?);
    u32::try_from(number).map_err(|_| AnamnesisError::parse(format!("{what}: {number} is negative")))
}

/// Reads the headers of all tensors, up to the end of the file.
pub(super) fn read_tensors(
    cursor: &mut Cursor<'_>,
    file: u32,
    front: &Front,
    budget: &mut Budget,
) -> Result<(Vec<StoredTensor>, Vec<Unreadable>)> {
    let mut tensors = Vec::new();
    while cursor.remaining() > 0 {
        let number = tensors.len() as u64 + 1;
        TENSORS.check(number, "tensors")?;
        budget.items(number, "tensors")?;
        let tensor = read_tensor(cursor, file, budget);
        tensors.push(tensor.map_err(|error| error.within(format_args!("tensor number {number}")))?);
    }
    if tensors.is_empty() {
        return Err(AnamnesisError::parse("there are no tensors after the vocabulary"));
    }
    let unreadable = old_blocks(&tensors, front.version());
    Ok((tensors, unreadable))
}

fn read_tensor(cursor: &mut Cursor<'_>, file: u32, budget: &mut Budget) -> Result<StoredTensor> {
    let (rank, name_bytes) = (count(cursor, "the rank")?, u64::from(count(cursor, "the length of the name")?));
    let type_id = count(cursor, "the type")?;
    if !(1..=MAX_RANK).contains(&rank) {
        return Err(AnamnesisError::parse(format!("the rank is {rank}, 1 to {MAX_RANK} are allowed")));
    }
    let mut shape = Vec::with_capacity(rank as usize);
    for _ in 0..rank {
        match count(cursor, "a dimension")? {
            0 => return Err(AnamnesisError::parse("a dimension is 0")),
            size => shape.push(size as usize),
        }
    }
    NAME_BYTES.check(name_bytes, "bytes of a name")?;
    cursor.check_remaining(name_bytes)?;
    budget.working_set(name_bytes + size_of::<StoredTensor>() as u64, "a tensor's entry")?;
    let name = str::from_utf8(cursor.take(name_bytes as usize)?)
        .map_err(|error| AnamnesisError::parse(format!("the name is not UTF-8: {error}")))?
        .to_owned();
    if name.is_empty() {
        return Err(AnamnesisError::parse("the name is empty"));
    }
    let dtype = GgufType::from_id(type_id).and_then(GgufType::dtype).ok_or_else(|| {
        let why = format!("tensor {} has {}", quoted(&name), describe_unknown(type_id));
        AnamnesisError::unsupported("whisper.cpp", why)
    })?;
    let (row, block) = (shape.first().copied().unwrap_or(1), block_elements(dtype));
    if !row.is_multiple_of(block) {
        let why = format!("rows of {row} are not a whole number of {dtype} blocks of {block} elements");
        return Err(AnamnesisError::parse(why).in_tensor(&name));
    }
    let bytes = elements(&shape).and_then(|elements| dtype.byte_len(elements));
    let too_large = || AnamnesisError::parse(format!("the shape {shape:?} has more than 2^64 bytes")).in_tensor(&name);
    let bytes = bytes.ok_or_else(too_large)?;
    let extent = Extent { file, offset: cursor.position(), bytes };
    cursor.jump(bytes).map_err(|error| error.in_tensor(&name))?;
    shape.reverse();
    Ok(StoredTensor { name, dtype, shape, extent })
}

fn block_elements(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Block(block) => block.block_elements() as usize,
        _ => 1,
    }
}

/// The tensors whose blocks may have the layout of whisper.cpp before May 2023. Since then the halves of Q5_0 and Q5_1
/// are in another order under an equal size, which only the version shows; the blocks of the other types of that time
/// had another size, so a file whose tensors end with the file has the current ones.
fn old_blocks(tensors: &[StoredTensor], version: u32) -> Vec<Unreadable> {
    let is_doubtful = |tensor: &StoredTensor| matches!(tensor.dtype, Dtype::Block(BlockType::Q5_0 | BlockType::Q5_1));
    let is_newer = |tensor: &StoredTensor| matches!(tensor.dtype, Dtype::Block(_)) && !is_doubtful(tensor);
    if version >= CURRENT_VERSION || tensors.iter().any(is_newer) {
        return Vec::new();
    }
    let refused = |tensor: &StoredTensor| {
        let (name, dtype) = (quoted(&tensor.name), tensor.dtype);
        let why = format!("tensor {name} has {dtype} blocks of version {version}, whose codes are in another order");
        Unreadable { format: "whisper.cpp", why }
    };
    tensors.iter().filter(|tensor| is_doubtful(tensor)).map(refused).collect()
}
