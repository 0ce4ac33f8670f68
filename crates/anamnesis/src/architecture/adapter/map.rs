//! The tensors of an adapter in GGUF.

use std::collections::HashMap;

use super::description::AdapterDescription;
use super::low_rank::{Product, Source, factored};
use crate::architecture::config::Config;
use crate::architecture::kind::Architecture;
use crate::architecture::map::{EMBEDDING, Mapped, Mapping, Named};
use crate::architecture::tree::Tree;
use crate::error::{AnamnesisError, Result, quoted};

/// The prefix that PEFT adds to the names of the base.
const WRAPPER: &str = "base_model.model.";
/// The weights of the base itself, which an adapter may hold.
const BASE_LAYER: &str = ".base_layer.weight";

/// Endings of the first factor of a pair and of the second, for linear layers and for embeddings.
const LINEAR: [&str; 2] = [".lora_A.weight", ".lora_B.weight"];
const EMBEDDED: [&str; 2] = [".lora_embedding_A", ".lora_embedding_B"];

/// The factors of one module, by the indices of their tensors.
struct Pair {
    /// The name of the weight in the base.
    base: String,
    factors: [Option<usize>; 2],
    is_embedding: bool,
}

impl Architecture {
    /// Maps the tensors of an adapter, in the order of its file.
    pub(crate) fn map_adapter(
        &'static self,
        tensors: &[Named<'_>],
        config: &Config,
        described: &AdapterDescription,
    ) -> Result<Mapping> {
        let (mut left_out, mut whole, mut pairs) = (Vec::new(), Vec::new(), Vec::<Pair>::new());
        let mut by_name: HashMap<String, usize> = HashMap::new();
        for (index, tensor) in tensors.iter().enumerate() {
            match part_of(tensor.name)? {
                Part::Base => left_out.push(tensor.name.to_owned()),
                Part::Whole(base) => whole.push((base, index)),
                Part::Factor { base, place, is_embedding } => {
                    let at = *by_name.entry(base.clone()).or_insert(pairs.len());
                    if at == pairs.len() {
                        pairs.push(Pair { base, factors: [None, None], is_embedding });
                    }
                    let pair = &mut pairs[at];
                    if pair.factors[place].replace(index).is_some() || pair.is_embedding != is_embedding {
                        let why = format!("there are two factors of {}", quoted(&pair.base));
                        return Err(AnamnesisError::parse(why).in_tensor(tensor.name));
                    }
                }
            }
        }
        let mut sources = Vec::new();
        let mut weights: Vec<(String, Vec<usize>, &str)> = Vec::new();
        for (base, index) in whole {
            sources.push(Source::Whole(Tree::Tensor(index)));
            weights.push((base, tensors[index].shape.to_vec(), tensors[index].name));
        }
        for pair in pairs {
            let (product, name) = pair.product(tensors, described)?;
            let shape = [product.rows, product.cols].map(|size| usize::try_from(size).unwrap_or(usize::MAX));
            sources.push(Source::Product(product));
            weights.push((pair.base, shape.to_vec(), name));
        }
        let named: Vec<Named<'_>> = weights.iter().map(|(name, shape, _)| Named { name, shape }).collect();
        let mapping = self.map(&named, config, false)?;
        for name in mapping.left_out {
            // The towers of a multimodal model are no part of the language model; every other weight must have a place.
            if self.local_name(&name, None).is_some() {
                let why =
                    "its weight has no place of its own in GGUF: the embedding is the head, or the layer is left out";
                return Err(AnamnesisError::parse(why).in_tensor(&name));
            }
            left_out.push(name);
        }
        let mut made = Vec::new();
        for mapped in mapping.tensors.iter().filter(|mapped| !matches!(mapped.tree, Tree::Constant(_))) {
            let first = mapped.tree.tensors().first().and_then(|&index| weights.get(index));
            let source = first.map_or("", |(_, _, source)| source);
            let factored = factored(&mapped.tree, &sources).and_then(|source| written(mapped, source));
            made.extend(factored.map_err(|error| error.in_tensor(source))?);
        }
        if made.is_empty() {
            return Err(AnamnesisError::parse("the adapter changes no weight of the language model"));
        }
        Ok(Mapping { tensors: made, left_out })
    }
}

/// The part of an adapter that a tensor is.
enum Part {
    /// A weight of the base.
    Base,
    /// A tensor that replaces that of the base.
    Whole(String),
    Factor {
        base: String,
        place: usize,
        is_embedding: bool,
    },
}

fn part_of(name: &str) -> Result<Part> {
    let bare = name.replace(WRAPPER, "");
    for (is_embedding, endings) in [(false, LINEAR), (true, EMBEDDED)] {
        for (place, ending) in endings.into_iter().enumerate() {
            if let Some(module) = bare.strip_suffix(ending) {
                return Ok(Part::Factor { base: format!("{module}.weight"), place, is_embedding });
            }
        }
    }
    if bare.ends_with(BASE_LAYER) {
        return Ok(Part::Base);
    }
    if bare.contains("_layernorm") || bare.contains(".norm") {
        return Ok(Part::Whole(bare));
    }
    let why =
        "it is no factor of a pair (lora_A, lora_B) and no norm; GGUF has no place for other tensors of an adapter";
    Err(AnamnesisError::unsupported("LoRA", why).in_tensor(name))
}

impl Pair {
    /// The product of the factors, and the name of the first.
    fn product<'t>(&self, tensors: &[Named<'t>], described: &AdapterDescription) -> Result<(Product, &'t str)> {
        let (a, b) = match self.factors {
            [Some(a), Some(b)] => (a, b),
            [Some(one), None] => return Err(lonely(tensors[one].name, "second (B)")),
            [_, other] => return Err(lonely(other.map_or("", |one| tensors[one].name), "first (A)")),
        };
        let (of_a, of_b) = (&tensors[a], &tensors[b]);
        let (&[rank, cols], &[rows, other]) = (of_a.shape, of_b.shape) else {
            let why =
                format!("the factors have the shapes {:?} and {:?}, two matrices are needed", of_a.shape, of_b.shape);
            return Err(AnamnesisError::parse(why).in_tensor(of_a.name));
        };
        if rank != other {
            let why = format!("its rank is {rank}, that of {} is {other}", quoted(of_b.name));
            return Err(AnamnesisError::parse(why).in_tensor(of_a.name));
        }
        if let Some(wanted) = described.rank.filter(|wanted| *wanted != rank as u64) {
            let why = format!("its rank is {rank}, but {wanted} by adapter_config.json (\"r\")");
            return Err(AnamnesisError::parse(why).in_tensor(of_a.name));
        }
        let [rank, rows, cols] = [rank, rows, cols].map(|size| size as u64);
        let product = Product { a: Tree::Tensor(a), b: Tree::Tensor(b), rank, rows, cols, stack: None };
        // An embedding is looked up by rows, one per token: its product is added transposed.
        let is_transposed = self.is_embedding || described.is_transposed;
        Ok((if is_transposed { product.transposed() } else { product }, of_a.name))
    }
}

fn lonely(name: &str, other: &str) -> AnamnesisError {
    AnamnesisError::parse(format!("the {other} factor of its pair is missing")).in_tensor(name)
}

/// The tensors that a mapped weight of the base becomes.
fn written(mapped: &Mapped, source: Source) -> Result<Vec<Mapped>> {
    let product = match source {
        Source::Whole(tree) => {
            return match mapped.name.contains("_norm") && mapped.shape.len() == 1 {
                true => Ok(vec![Mapped { name: mapped.name.clone(), shape: mapped.shape.clone(), tree }]),
                false => Err(AnamnesisError::unsupported("LoRA", "only norms can be replaced whole")),
            };
        }
        Source::Product(product) => product,
    };
    let sizes =
        |sizes: [u64; 2]| -> Vec<usize> { product.stack.into_iter().chain(sizes).map(|size| size as usize).collect() };
    if mapped.shape != sizes([product.rows, product.cols]) {
        let why = format!("its weight has the shape {:?} in GGUF, which is no product of two matrices", mapped.shape);
        return Err(AnamnesisError::unsupported("LoRA", why));
    }
    let named =
        |end: &str, shape: Vec<usize>, tree: Tree| Mapped { name: format!("{}.{end}", mapped.name), shape, tree };
    let (a, b) = (sizes([product.rank, product.cols]), sizes([product.rows, product.rank]));
    if mapped.name == EMBEDDING {
        // llama.cpp looks up rows of the first factor.
        let (tokens, hidden) = (product.b.clone(), vec![product.cols as usize, product.rank as usize]);
        return Ok(vec![named("lora_a", b, tokens), named("lora_b", hidden, product.transposed().b)]);
    }
    Ok(vec![named("lora_a", a, product.a), named("lora_b", b, product.b)])
}
